// Package httptool runs tools that are an HTTP request, by declaration. They
// stand in the same files as those that are commands, which package exectool
// reads; name, queue, description, effect, version, schema, timeout and
// max_output are the same:
//
//	tools:
//	  - name: change_address
//	    description: changes where an order is sent
//	    effect: keyed
//	    timeout: 10s
//	    max_output: 256KiB
//	    http:
//	      method: PATCH
//	      url: https://shop.example.com/orders/{order_id}
//	      query: {notify: "{notify}"}
//	      headers: {Authorization: "Bearer ${SHOP_TOKEN}"}
//	      body: [address]
//	      status: {409: definite, 404: invalid}
//
// What a status means, unless status says otherwise:
//
//	2xx                success
//	400, 422           invalid: the arguments are for the reflector to mend
//	408, 425, 503      unavailable: nothing was done
//	429                rate_limited: nothing was done
//	501, 505           definite
//	other 5xx          ambiguous: a part may have been done
//	any other          definite
//
// Without an answer it is definite if no connection was made, and ambiguous
// from then on (S7.3). A page of its own, docs/http-tools.md, has the rest.
package httptool
