package flightlog

import (
	"fmt"
	"strconv"
	"strings"

	"nova.internal/libs/api/novav1"
)

// ClassName is the class as chains, flags and people name it.
func ClassName(c novav1.Class) string {
	switch c {
	case novav1.Class_CLASS_STANDARD:
		return "standard"
	case novav1.Class_CLASS_EXPRESS:
		return "express"
	}
	return "class" + strconv.Itoa(int(c))
}

// ChainName names the chain that one incarnation of a star writes for one class.
func ChainName(star, incarnation string, class novav1.Class) string {
	return star + "/" + incarnation + "/" + ClassName(class)
}

// ParseChain takes a chain's name apart.
func ParseChain(name string) (star, incarnation string, class novav1.Class, err error) {
	parts := strings.Split(name, "/")
	if len(parts) == 3 && checkKey(name) == nil {
		for _, c := range []novav1.Class{novav1.Class_CLASS_STANDARD, novav1.Class_CLASS_EXPRESS} {
			if parts[2] == ClassName(c) {
				return parts[0], parts[1], c, nil
			}
		}
	}
	return "", "", 0, fmt.Errorf("chain %q: want STAR/INCARNATION/CLASS", name)
}

// SlotKey is the key of a chain's slot on every copy.
func SlotKey(chain string, slot uint64) string {
	return fmt.Sprintf("flights/%s/%020d", chain, slot)
}

// slotOf reads the slot back from a key.
func slotOf(key string) (uint64, error) {
	return strconv.ParseUint(key[strings.LastIndexByte(key, '/')+1:], 10, 64)
}
