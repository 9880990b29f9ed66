package main

import (
	"context"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
)

// grownOffice is an office whose schema has one step more than the database.
type grownOffice struct {
	office
	migrated bool
}

func (o *grownOffice) Pending(context.Context) ([]ichido.Migration, error) {
	return []ichido.Migration{{Version: 2, Name: "a later one"}}, nil
}

func (o *grownOffice) Migrate(context.Context) ([]ichido.Migration, error) {
	o.migrated = true
	return nil, nil
}

// Other servers may be running on an earlier schema: only the operator can say when it may change.
func TestServeDoesNotUpgradeASchema(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		db := open(t, location)
		grown := &grownOffice{office: db.office}
		db.office = grown
		err := db.prepare(t.Context())
		if err == nil || !strings.Contains(err.Error(), "ichido migrate") || grown.migrated {
			t.Errorf("upgraded: %v, error: %v", grown.migrated, err)
		}
	})
}
