-- Wireshark's view of Tally: the native protocol (tally.*) and the SwitchML dialect (switchml.*). docs/wireshark.md
-- says how to load it. This file finds its modules beside itself, wherever it was installed; Wireshark 4.0 and later.

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
package.path = here .. "?.lua;" .. package.path

require("tally.native")
require("tally.switchml")
