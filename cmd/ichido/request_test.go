package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
)

// requestMain is a small curl for the scripts: request [-X method] [-H 'Name: value']... [-d body] url
// prints the answer as curl -i does, without the fields that differ each time.
func requestMain() {
	method := flag.String("X", "", "method")
	body := flag.String("d", "", "body")
	header := make(http.Header)
	flag.Func("H", "field", func(field string) error {
		name, value, _ := strings.Cut(field, ": ")
		header.Add(name, value)
		return nil
	})
	flag.Parse()
	if err := request(*method, flag.Arg(0), *body, header); err != nil {
		fmt.Fprintln(os.Stderr, "request:", err)
		os.Exit(1)
	}
}

func request(method, url, body string, header http.Header) error {
	if method == "" {
		method = http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = header
	client := http.Client{Timeout: patience}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	response.Header.Del("Date")
	response.Header.Del("X-Request-Id")
	fmt.Println(response.StatusCode, http.StatusText(response.StatusCode))
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		fmt.Printf("%s: %s\n", name, strings.Join(response.Header[name], ", "))
	}
	fmt.Println()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
