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
	github.com/google/go-cmp v0.7.0
	github.com/oklog/ulid/v2 v2.1.2
	github.com/prometheus/client_golang v1.25.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.48.0
	golang.org/x/time v0.16.0
	google.golang.org/protobuf v1.36.12
	nova.internal/libs/api v0.0.0-00010101000000-000000000000
	pgregory.net/rapid v1.3.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/grpc v1.85.0 // indirect
)
