package httptool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// errAddress is that of an address which may not be dialled.
var errAddress = errors.New("it is not a public address; the declaration allows others under allow_addresses")

// reserved are prefixes that lead into networks of one's own, beside those
// that netip knows: shared and special addresses, and those of IPv6 that stand
// for addresses of IPv4.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// mayDial says whether an address is public, or allowed.
func mayDial(a netip.Addr, allowed []netip.Prefix) error {
	a = a.Unmap().WithZone("")
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	if slices.ContainsFunc(allowed, within) || a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(reserved, within) {
		return nil
	}
	return fmt.Errorf("%s: %w", a, errAddress)
}

// prefix reads an address, or a prefix.
func prefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a prefix such as 10.0.0.0/8", s)
	}
	return p.Masked(), nil
}

const (
	idleFor    = 30 * time.Second
	maxIdle    = 16
	maxHeaders = 64 << 10
)

// client asks for the address at the time of dialling, so what a name resolves
// to before or after does not matter. With unsafe every request has a
// connection of its own: of one that was used before and turns out closed,
// net/http would send some again by itself.
func (p *plan) client(dialer net.Dialer, unsafe bool) *http.Client {
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return mayDial(a.Addr(), p.allowed)
	}
	t := &http.Transport{
		DialContext: dialer.DialContext, DisableKeepAlives: unsafe, MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout: idleFor, MaxResponseHeaderBytes: maxHeaders,
	}
	if p.Proxy {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{Transport: t, CheckRedirect: p.redirect}
}

// redirect lets a response that leads elsewhere be the answer, unless it may be
// followed: never with secrets to another origin, nor from https to http.
func (p *plan) redirect(next *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	away := next.URL.Scheme != from.Scheme || next.URL.Host != from.Host
	scheme := next.URL.Scheme
	if len(via) > p.Redirects || away && p.secret || scheme != "https" && (scheme != "http" || from.Scheme == "https") {
		return http.ErrUseLastResponse
	}
	return nil
}
