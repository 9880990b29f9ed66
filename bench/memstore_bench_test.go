package main

import "testing"

// BenchmarkMemstore is what `go run ./bench --db memory` measures, for profiles:
//
//	go test ./bench -run '^$' -bench Memstore/first/ichido -cpuprofile cpu.out
func BenchmarkMemstore(b *testing.B) {
	for _, c := range memoryCases {
		b.Run(c.name, func(b *testing.B) {
			b.Run("bare", func(b *testing.B) { c.benchmark(b, true) })
			b.Run("ichido", func(b *testing.B) { c.benchmark(b, false) })
		})
	}
}
