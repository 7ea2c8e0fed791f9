module nova.internal/services/novactl

go 1.26.0

replace nova.internal/libs/api => ../../libs/api

replace nova.internal/libs/coord => ../../libs/coord

replace nova.internal/libs/epoch => ../../libs/epoch

replace nova.internal/libs/flightlog => ../../libs/flightlog

replace nova.internal/libs/placement => ../../libs/placement

replace nova.internal/libs/events => ../../libs/events

replace nova.internal/libs/client => ../../libs/client

replace nova.internal/libs/runtime => ../../libs/runtime

replace nova.internal/libs/oxiaembed => ../../libs/oxiaembed

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/schollz/progressbar/v3 v3.19.1 // indirect
	github.com/spf13/cobra v1.10.2 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/term v0.48.0 // indirect
)
