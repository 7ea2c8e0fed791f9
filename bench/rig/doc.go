// Package rig is the nova under test: the whole fleet of services/nova in this process, over files, an
// embedded Oxia and NATS; clients of it made by the SDK; and what drives them.
//
//	Load ─▶ SDK producers ─ gRPC on loopback ─▶ [ gateway ─▶ ] star ─▶ copies in the scratch folder
//
// Nothing is replaced and nothing is bypassed: Direct means the SDK's own Direct mode. Client and fleet
// share the process and its cores.
package rig
