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

require golang.org/x/sync v0.25.0 // indirect
