package main

import (
	"encoding/json"
	"net/http"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
	"github.com/ichido-dev/ichido/openapi"
	"github.com/spf13/cobra"
)

// serviceDesc is the Link (RFC 8631) that leads to the description of the API.
const serviceDesc = `</openapi.json>; rel="service-desc"; type="application/json"`

func newOpenAPICommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of what serve serves",
		Long: `openapi prints the OpenAPI 3.1 document of the API that ichido serve, with the same flags, serves and shows at
/openapi.json: its paths, the key with its form and retention, and every problem.

` + exitCodes,
		Example: `  ichido openapi > openapi.json
  ichido openapi --retention 72h --in-progress wait`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			known, err := parseTokens(o.token)
			if err != nil {
				return err
			}
			once, err := ichido.New(memstore.New(nil), known.scope(), o.config(nil)) // the store is not asked
			if err != nil {
				return err
			}
			orders, err := once.With(o.ordersConfig)
			if err != nil {
				return err
			}
			out, err := describeAPI(once.KeyPolicy(), orders.KeyPolicy(), o.lang, known.needed())
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	addPolicyFlags(cmd, &o)
	return cmd
}

// describe answers with the OpenAPI document, to scripts of every origin: it says nothing that is not public.
func (a *api) describe(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	a.openAPI.ServeHTTP(w, r)
}

type object = map[string]any

// describeAPI returns the OpenAPI document of the API under the policies of reservations and of orders.
func describeAPI(reservations, orders ichido.KeyPolicy, lang string, withTokens bool) ([]byte, error) {
	d := describer{policy: orders, withTokens: withTokens} // which has the problems of both
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title":   "Reservations and orders of equipment",
			"version": version(),
			"description": "Takes reservations and orders, each of which takes effect once for its key. " +
				"Problems are in English or Japanese by `Accept-Language`, else in " + pageLanguage[lang] + "; each type leads to its documentation.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":    []any{object{"url": "/"}},
		"paths":      d.paths(),
		"components": d.components(),
	}
	for _, route := range []struct {
		path   string
		policy ichido.KeyPolicy
	}{{"/reservations", reservations}, {"/orders", orders}} {
		if err := openapi.Decorate(doc, route.policy, http.MethodPost, route.path); err != nil {
			return nil, err
		}
		completeExamples(doc, route.path, route.policy)
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

var pageLanguage = map[string]string{"en": "English", "ja": "Japanese"}
