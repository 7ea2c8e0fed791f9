module nova.internal/e2e

go 1.26.0

replace nova.internal/libs/api => ../libs/api

replace nova.internal/libs/coord => ../libs/coord

replace nova.internal/libs/epoch => ../libs/epoch

replace nova.internal/libs/flightlog => ../libs/flightlog

replace nova.internal/libs/placement => ../libs/placement

replace nova.internal/libs/events => ../libs/events

replace nova.internal/libs/client => ../libs/client

replace nova.internal/libs/runtime => ../libs/runtime

replace nova.internal/libs/oxiaembed => ../libs/oxiaembed

replace nova.internal/services/sequencer => ../services/sequencer

replace nova.internal/services/placer => ../services/placer

replace nova.internal/services/gateway => ../services/gateway

replace nova.internal/services/novactl => ../services/novactl

replace nova.internal/services/nova => ../services/nova

require (
	golang.org/x/sync v0.25.0
	nova.internal/libs/api v0.0.0-00010101000000-000000000000
	nova.internal/libs/client v0.0.0-00010101000000-000000000000
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/oklog/ulid/v2 v2.1.2 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
