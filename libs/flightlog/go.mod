module nova.internal/libs/flightlog

go 1.26.0

replace nova.internal/libs/api => ../../libs/api

replace nova.internal/libs/coord => ../../libs/coord

replace nova.internal/libs/epoch => ../../libs/epoch

replace nova.internal/libs/placement => ../../libs/placement

replace nova.internal/libs/events => ../../libs/events

replace nova.internal/libs/client => ../../libs/client

replace nova.internal/libs/runtime => ../../libs/runtime

replace nova.internal/libs/oxiaembed => ../../libs/oxiaembed

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/oklog/ulid/v2 v2.1.2 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
