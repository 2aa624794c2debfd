// Asks over TLS with Go's own resolver, and over HTTPS with its HTTP client, and prints what comes.
//
// Arguments: the ports of both, the file of the authority, and a query in hexadecimal digits.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	authority, err := os.ReadFile(os.Args[3])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: roots, ServerName: "dns.example", ClientSessionCache: tls.NewLRUClientSessionCache(9)}
	overTLS(config, "127.0.0.1:"+os.Args[1])
	query, err := hex.DecodeString(os.Args[4])
	check(err)
	overHTTPS(config, "127.0.0.1:"+os.Args[2], query)
}

// Looks many names up at the same time.
func overTLS(config *tls.Config, server string) {
	dialer := &tls.Dialer{Config: config}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", server)
	}}
	var wait sync.WaitGroup
	for number := 0; number < 50; number++ {
		wait.Add(1)
		go func(number int) {
			defer wait.Done()
			addresses, err := resolver.LookupIP(context.Background(), "ip4", fmt.Sprintf("n%d.example.", number))
			check(err)
			fmt.Println("tls", addresses[0])
		}(number)
	}
	wait.Wait()
	addresses, err := resolver.LookupIP(context.Background(), "ip4", "many.test.")
	check(err)
	fmt.Println("many", len(addresses))
}

// Sends many requests at the same time.
func overHTTPS(config *tls.Config, server string, query []byte) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   config,
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server)
		},
	}}
	url := "https://dns.example/dns-query"
	var wait sync.WaitGroup
	for number := 0; number < 100; number++ {
		wait.Add(1)
		go func(number int) {
			defer wait.Done()
			var response *http.Response
			var err error
			if number%2 == 0 {
				response, err = client.Post(url, "application/dns-message", bytes.NewReader(query))
			} else {
				response, err = client.Get(url + "?dns=" + base64.RawURLEncoding.EncodeToString(query))
			}
			check(err)
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			check(err)
			fmt.Println(response.Proto, response.StatusCode, hex.EncodeToString(body))
		}(number)
	}
	wait.Wait()
}
