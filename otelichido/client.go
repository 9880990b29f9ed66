// Package otelichido tells OpenTelemetry what ichido does. It is a module of its own, so that the library needs no
// third-party dependency.
package otelichido

import (
	"context"
	"fmt"

	"github.com/ichido-dev/ichido/client"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/ichido-dev/ichido/otelichido"

// ClientObserver returns a function for client.Config.Observe, which tells OpenTelemetry of each attempt:
//
//	ichido.client.attempt.duration   histogram, s        how long attempts take; its count is how many there were
//	ichido.client.sendings           counter, {sending}  how often requests may have reached the network, net/http's own resends included
//	ichido.client.stops              counter, {request}  requests that got no further attempt, by why
//
// and adds the event "ichido.attempt" to the span of the request's context, if that is recorded. Attributes are those of
// OpenTelemetry's conventions for HTTP clients (http.request.method, http.response.status_code, server.address), and
// ichido.target, ichido.verdict and ichido.stopped. None of them is the key, or has as many values as there are operations.
//
// A nil provider means the global one, as it is now. The function may be called by any number of goroutines.
func ClientObserver(provider metric.MeterProvider) (func(context.Context, client.Attempt), error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(scope)
	// The bounds are those that the conventions give for http.client.request.duration.
	duration, err := meter.Float64Histogram("ichido.client.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("How long attempts of an operation take."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	if err != nil {
		return nil, fmt.Errorf("otelichido: %w", err)
	}
	sendings, err := meter.Int64Counter("ichido.client.sendings", metric.WithUnit("{sending}"),
		metric.WithDescription("How often requests may have reached the network."))
	if err != nil {
		return nil, fmt.Errorf("otelichido: %w", err)
	}
	stops, err := meter.Int64Counter("ichido.client.stops", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that got no further attempt."))
	if err != nil {
		return nil, fmt.Errorf("otelichido: %w", err)
	}
	return func(ctx context.Context, a client.Attempt) {
		all := []attribute.KeyValue{
			attribute.String("http.request.method", a.Method),
			attribute.String("server.address", a.Host),
			attribute.String("ichido.verdict", a.Verdict.String()),
		}
		if a.Target != "" {
			all = append(all, attribute.String("ichido.target", a.Target))
		}
		if a.Status != 0 {
			all = append(all, attribute.Int("http.response.status_code", a.Status))
		} else {
			all = append(all, attribute.String("error.type", "no answer"))
		}
		set := metric.WithAttributeSet(attribute.NewSet(all...))
		duration.Record(ctx, a.Elapsed.Seconds(), set)
		sendings.Add(ctx, int64(a.Sendings), set)
		if a.Stopped != "" {
			all = append(all, attribute.String("ichido.stopped", string(a.Stopped)))
			stops.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(all...)))
		}
		if span := trace.SpanFromContext(ctx); span.IsRecording() {
			span.AddEvent("ichido.attempt", trace.WithAttributes(append(all,
				attribute.Int("ichido.attempt.number", a.Number),
				attribute.Int("ichido.attempt.sendings", a.Sendings),
				attribute.Float64("ichido.attempt.wait", a.Wait.Seconds()))...))
		}
	}, nil
}
