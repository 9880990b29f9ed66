package otelichido_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client"
	"github.com/ichido-dev/ichido/otelichido"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// One operation of two attempts is measured, and told to its span, without its key.
func TestClientObserver(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
	observe, err := otelichido.ClientObserver(meters)
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(server.URL, "http://")
	transport, err := client.NewTransport(&client.Config{Targets: client.Targets{host: client.Ichido}, BaseDelay: time.Millisecond, Observe: observe})
	if err != nil {
		t.Fatal(err)
	}
	const key = "4bb6a4de-0d1c-4f52-9f4a-5d7ad0f3f0a1"
	ctx, span := tracer.Start(client.WithOperation(t.Context(), client.OperationFromKey(key)), "order")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	span.End()

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	text := ""
	count := func(name string, set attribute.Set, n int64) {
		status, _ := set.Value("http.response.status_code")
		verdict, _ := set.Value("ichido.verdict")
		stopped, _ := set.Value("ichido.stopped")
		got[fmt.Sprint(name, " ", status.String(), " ", verdict.String(), " ", stopped.String())] += n
		text += fmt.Sprint(set.ToSlice())
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				count(m.Name, p.Attributes, p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				count(m.Name, p.Attributes, int64(p.Count))
				if p.Sum <= 0 || p.Sum > 60 {
					t.Errorf("an attempt of %v s", p.Sum)
				}
			}
		}
	}
	for what, n := range map[string]int64{
		"ichido.client.attempt.duration 503 uncertain ":               1,
		"ichido.client.attempt.duration 201 succeeded ":               1,
		"ichido.client.sendings 503 uncertain ":                       1,
		"ichido.client.sendings 201 succeeded ":                       1,
		"ichido.client.stops 201 succeeded " + string(client.StopEnd): 1,
	} {
		if got[what] != n {
			t.Errorf("%q is %d, want %d; all are %v", what, got[what], n, got)
		}
		delete(got, what)
	}
	for what, n := range got {
		t.Errorf("%q is %d, and was not expected", what, n)
	}
	events := spans.Ended()[0].Events()
	if len(events) != 2 || events[0].Name != "ichido.attempt" {
		t.Errorf("the events of the span are %+v", events)
	}
	if text += fmt.Sprintf("%+v", events); strings.Contains(text, key) {
		t.Errorf("the key is in %s", text)
	}
	if !strings.Contains(text, host) || !strings.Contains(text, "ichido.target") {
		t.Errorf("no host or target in %s", text)
	}
}
