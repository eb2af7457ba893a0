package tool

import (
	"bytes"
	"strconv"
	"strings"
)

// plainIntegers writes whole numbers as Go wants to read them: 5.0 and 1e3,
// which JSON Schema counts among the integers and models like to write, become
// 5 and 1000. The rest of the text, which must be JSON, stays as it is.
func plainIntegers(text []byte) []byte {
	var out bytes.Buffer
	for len(text) > 0 {
		if text[0] == '"' {
			n := stringLength(text)
			out.Write(text[:n])
			text = text[n:]
			continue
		}
		n := numberLength(text)
		if n == 0 {
			out.WriteByte(text[0])
			text = text[1:]
			continue
		}
		out.WriteString(plainInteger(string(text[:n])))
		text = text[n:]
	}
	return out.Bytes()
}

func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// numberLength is 0 where text does not begin with a number. Words of JSON,
// such as true, hold no digit.
func numberLength(text []byte) int {
	if text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return 0
	}
	for i, c := range text {
		if !strings.ContainsRune("0123456789+-.eE", rune(c)) {
			return i
		}
	}
	return len(text)
}

// plainInteger leaves alone what is not whole, or too large for any integer.
func plainInteger(number string) string {
	const maxDigits = 20
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	whole, fraction, dotted := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	if !dotted && exponent == "" {
		return number
	}
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil {
			return number
		}
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	shift -= len(fraction)
	for strings.HasSuffix(digits, "0") && shift < 0 {
		digits, shift = digits[:len(digits)-1], shift+1
	}
	switch {
	case digits == "":
		return "0"
	case shift < 0 || shift > maxDigits || len(digits)+shift > maxDigits:
		return number
	}
	if strings.HasPrefix(number, "-") {
		digits = "-" + digits
	}
	return digits + strings.Repeat("0", shift)
}
