// franz-go's client of a registry: a line of JSON for each of its calls, on the registry whose URL is the argument.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

func said(value any, err error) {
	if err != nil {
		value = err.Error()
	}
	line, _ := json.Marshal(value)
	fmt.Println(string(line))
}

func main() {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	if err != nil {
		panic(err)
	}
	schema := sr.Schema{Schema: `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`}
	added, err := client.CreateSchema(ctx, "go-value", schema)
	said(added.ID, err)
	said(client.Subjects(ctx))
	found, err := client.SchemaByID(ctx, added.ID)
	said(found.Schema, err)
	latest, err := client.SchemaByVersion(ctx, "go-value", -1)
	said(latest.Version, err)
	looked, err := client.LookupSchema(ctx, "go-value", schema)
	said(looked.ID, err)
	set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "go-value")
	said(set[0].Level.String(), set[0].Err)
	checked, err := client.CheckCompatibility(ctx, "go-value", -1, sr.Schema{Schema: `"int"`})
	said(checked.Is, err)
	mode := client.SetMode(ctx, sr.ModeReadOnly, "go-value")
	said(mode[0].Mode.String(), mode[0].Err)
	mode = client.ResetMode(ctx, "go-value")
	said(mode[0].Mode.String(), mode[0].Err)
	said(client.DeleteSubject(ctx, "go-value", sr.SoftDelete))
	said(client.DeleteSubject(ctx, "go-value", sr.HardDelete))
	said(client.SchemaByVersion(ctx, "go-value", 1))
}
