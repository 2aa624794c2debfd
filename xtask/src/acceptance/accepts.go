// Says which rows CoreDNS's directives accept: reads JSON rows from standard input, one a line, and writes a verdict
// for each. It is built inside CoreDNS's module, whose parsers it calls as CoreDNS does when it reads a Corefile.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/core/plugin"
)

type row struct {
	Directive string
	Lines     string
}

type verdict struct {
	Accepted bool
	Reason   string
}

// What the machine lacks, and the Corefile does not: found after all of the row was read.
func elsewhere(err error) bool {
	for _, text := range []string{
		"unable to load in-cluster configuration",
		"plugin/kubernetes: stat ",
		"unable to read client-cert",
	} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func try(r row) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = verdict{false, fmt.Sprint("panic: ", p)}
		}
	}()
	setup, err := caddy.DirectiveAction("dns", r.Directive)
	if err == nil {
		c := caddy.NewTestController("dns", r.Lines)
		c.ServerBlockKeys = []string{"."}
		err = setup(c)
	}
	if err != nil && !elsewhere(err) {
		return verdict{false, err.Error()}
	}
	return verdict{true, ""}
}

func main() {
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var r row
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := out.Encode(try(r)); err != nil {
			os.Exit(1)
		}
	}
}
