// Package demo holds sample tools and a batch of calls with the kinds of
// failure that models and networks really produce, each with the end that it
// should have.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// slowFor is the time-out of the tools that can hang: short, so that the demo is.
const slowFor = 400 * time.Millisecond

// Tools are the sample tools. They fail by their arguments and by the attempt,
// so that each run of the demo is the same.
func Tools() []*tool.Tool {
	readOnly := tool.Effect(messages.ReadOnly)
	return []*tool.Tool{
		tool.New("convert_currency", convert, readOnly, schema(convertSchema), tool.Description("converts an amount of money")),
		tool.New("search_flights", flights, readOnly, schema(flightsSchema), tool.Description("finds flights between two airports")),
		tool.New("get_weather", weather, readOnly, tool.Timeout(slowFor), tool.Description("tells the weather in a city")),
		tool.New("translate", translate, readOnly, tool.Description("translates a sentence")),
		tool.New("get_order", order, readOnly, tool.Description("looks an order up")),
		tool.New("send_email", email, tool.Effect(messages.Unsafe), tool.Timeout(slowFor), tool.Description("sends an e-mail")),
	}
}

func schema(text string) tool.Option { return tool.Schema(json.RawMessage(text)) }

const convertSchema = `{"type":"object","properties":{` +
	`"amount":{"type":"number"},"from":{"enum":["USD","EUR","GBP","JPY"]},"to":{"enum":["USD","EUR","GBP","JPY"]}},` +
	`"required":["amount","from","to"],"additionalProperties":false}`

type conversion struct {
	Amount float64 `json:"amount"`
	From   string  `json:"from"`
	To     string  `json:"to"`
}

func convert(_ context.Context, in conversion) (string, error) {
	worth := map[string]float64{"USD": 1, "EUR": 1.1, "GBP": 1.25, "JPY": 0.0065}
	return fmt.Sprintf("%.2f %s = %.2f %s", in.Amount, in.From, in.Amount*worth[in.From]/worth[in.To], in.To), nil
}

const flightsSchema = `{"type":"object","properties":{` +
	`"origin":{"type":"string"},"destination":{"type":"string"},"max_results":{"type":"integer","minimum":1},` +
	`"cabin":{"enum":["economy","business","first"]}},"required":["origin","destination"],"additionalProperties":false}`

type journey struct {
	Origin      string `json:"origin"`
	Destination string `json:"destination"`
	MaxResults  int    `json:"max_results"`
	Cabin       string `json:"cabin"`
}

type flight struct {
	Number string `json:"number"`
	From   string `json:"from"`
	To     string `json:"to"`
}

func flights(_ context.Context, in journey) ([]flight, error) {
	found := []flight{{"ML101", in.Origin, in.Destination}, {"ML203", in.Origin, in.Destination}, {"ML305", in.Origin, in.Destination}}
	if in.MaxResults > 0 {
		found = found[:min(in.MaxResults, len(found))]
	}
	return found, nil
}

type place struct {
	City string `json:"city"`
}

func weather(ctx context.Context, in place) (string, error) {
	first := tool.FromContext(ctx).Attempt == 0
	switch {
	case in.City == "Reykjavik" && first, in.City == "Bergen" && first:
		return "", errors.New("503 Service Unavailable: upstream connect error, try again later")
	case in.City == "Nuuk" && first:
		<-ctx.Done()
		return "", ctx.Err()
	}
	return in.City + ": 17 °C, light wind", nil
}

type sentence struct {
	Text     string `json:"text"`
	Language string `json:"language"`
}

func translate(ctx context.Context, in sentence) (string, error) {
	if in.Language == "Icelandic" && tool.FromContext(ctx).Dispatch == 0 {
		return "", tool.RateLimited(errors.New("429 Too Many Requests: quota exceeded"), time.Second)
	}
	return fmt.Sprintf("%s, in %s", in.Text, in.Language), nil
}

type orderID struct {
	ID string `json:"id"`
}

func order(_ context.Context, in orderID) (map[string]string, error) {
	if len(in.ID) != 5 {
		return nil, fmt.Errorf("order %s does not exist", in.ID)
	}
	return map[string]string{"id": in.ID, "status": "shipped"}, nil
}

type letter struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

func email(ctx context.Context, in letter) (string, error) {
	if in.To == "board@example.com" {
		<-ctx.Done() // the mail server took it and never answered
		return "", ctx.Err()
	}
	return "sent to " + in.To, nil
}
