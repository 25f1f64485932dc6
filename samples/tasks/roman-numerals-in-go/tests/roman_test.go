package roman

import "testing"

func TestFormat(t *testing.T) {
	numerals := map[int]string{1: "I", 4: "IV", 9: "IX", 14: "XIV", 40: "XL", 90: "XC", 400: "CD", 1994: "MCMXCIV", 2026: "MMXXVI", 3999: "MMMCMXCIX"}
	for number, expected := range numerals {
		if found, err := Format(number); err != nil || found != expected {
			t.Errorf("Format(%d) is %q, %v; expected %q", number, found, err, expected)
		}
	}
	for _, number := range []int{-1, 0, 4000} {
		if found, err := Format(number); err == nil {
			t.Errorf("Format(%d) is %q; expected an error", number, found)
		}
	}
}
