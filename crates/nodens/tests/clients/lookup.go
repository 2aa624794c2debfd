// Looks names up with Go's own resolver and prints the addresses.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sort"
)

func main() {
	resolver := &net.Resolver{PreferGo: true}
	for _, name := range os.Args[1:] {
		addresses, err := resolver.LookupHost(context.Background(), name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		sort.Strings(addresses)
		for _, address := range addresses {
			fmt.Println(name, address)
		}
	}
}
