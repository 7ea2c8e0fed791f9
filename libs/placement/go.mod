module nova.internal/libs/placement

go 1.26.0

replace nova.internal/libs/api => ../../libs/api
