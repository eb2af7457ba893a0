package httptool

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

func TestWhichAddressesMayBeDialled(t *testing.T) {
	for address, public := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "2606:4700::1111": true, "172.32.0.1": true, "100.128.0.1": true,
		"127.0.0.1": false, "127.9.9.9": false, "::1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "fd00::1": false, "fc00::1": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false,
		"100.64.0.1": false, "192.0.0.8": false, "198.19.0.1": false, "224.0.0.1": false, "ff02::1": false, "ff0e::1": false,
		"240.0.0.1": false, "255.255.255.255": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true, "::127.0.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001::1": false,
	} {
		if err := mayDial(netip.MustParseAddr(address), nil); (err == nil) != public || err != nil && !errors.Is(err, errAddress) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for text, in := range map[string]string{
		"127.0.0.1": "127.0.0.1", "10.1.2.3/8": "10.255.0.1", "::ffff:10.0.0.1": "10.0.0.1", "fe80::/10": "fe80::1%eth0", "::1": "::1",
	} {
		p, err := prefix(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := mayDial(netip.MustParseAddr(in), []netip.Prefix{p}); err != nil {
			t.Errorf("%s allows %s: %v", text, in, err)
		}
		if mayDial(netip.MustParseAddr("192.168.0.1"), []netip.Prefix{p}) == nil {
			t.Errorf("%s allows 192.168.0.1", text)
		}
	}
}

// A name that is not found is definite: nothing was sent.
func TestS7_3_ANameThatDoesNotResolveIsDefinite(t *testing.T) {
	p, err := Request{URL: "http://nowhere.example"}.WithDefaults().compile(environment)
	if err != nil {
		t.Fatal(err)
	}
	silent := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no name server") }}
	_, err = newRunner("x", messages.Unsafe, p, 100, net.Dialer{Resolver: silent}).run(t.Context(), tool.Call{Input: []byte(`{}`)})
	var f *tool.Failure
	if !errors.As(err, &f) || f.Code != messages.CodeUnavailable || f.Ambiguous || !f.NothingDone {
		t.Errorf("%+v, %v", f, err)
	}
}
