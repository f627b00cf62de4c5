-- Wireshark and tshark dissector of Weir's PINT shim (docs/pint.md):
--
--   tshark -X lua_script:docs/pint.lua -r CAPTURE -Y pint
--
-- Behind the addresses and VLAN tags, EtherType 0x88B5, then
--   version(4) interval(1) length-1 (3) | hop(8) | plan(16) | digest(8 * length) | original EtherType(16)

local pint = Proto("pint", "PINT telemetry shim")

local f = pint.fields
f.version = ProtoField.uint8("pint.version", "Version", base.DEC, nil, 0xf0)
f.interval = ProtoField.uint8("pint.interval", "Interval", base.DEC, nil, 0x08)
f.length = ProtoField.uint8("pint.length", "Digest length", base.DEC)
f.hop = ProtoField.uint8("pint.hop", "Hop", base.DEC)
f.plan = ProtoField.uint16("pint.plan", "Plan", base.DEC)
f.digest = ProtoField.bytes("pint.digest", "Digest")
f.type = ProtoField.uint16("pint.type", "Original type", base.HEX)

local malformed = ProtoExpert.new("pint.malformed", "not a shim of version 1", expert.group.MALFORMED, expert.severity.ERROR)
pint.experts = { malformed }

local ethertypes = DissectorTable.get("ethertype")
local data = Dissector.get("data")
local llc = Dissector.get("llc")

function pint.dissector(buffer, info, tree)
  if buffer:captured_len() < 7 then
    tree:add_proto_expert_info(malformed)
    return 0
  end
  local first = buffer(0, 1):uint()
  local length = bit.band(first, 7) + 1
  local shim = 6 + length
  if bit.rshift(first, 4) ~= 1 or buffer:captured_len() < shim then
    local item = tree:add(pint, buffer())
    item:add_proto_expert_info(malformed)
    return data:call(buffer, info, tree)
  end
  local hop, plan, type = buffer(1, 1), buffer(2, 2), buffer(shim - 2, 2)
  local item = tree:add(pint, buffer(0, shim), string.format("PINT, hop %d, plan %d, digest %s", hop:uint(), plan:uint(), buffer(4, length):bytes():tohex(true)))
  item:add(f.version, buffer(0, 1))
  item:add(f.interval, buffer(0, 1))
  item:add(f.length, buffer(0, 1), length)
  item:add(f.hop, hop)
  item:add(f.plan, plan)
  item:add(f.digest, buffer(4, length))
  item:add(f.type, type)
  info.cols.protocol = "PINT"
  local rest = buffer(shim):tvb()
  if type:uint() < 0x0600 then
    return llc:call(rest, info, tree)
  end
  if not ethertypes:try(type:uint(), rest, info, tree) then
    data:call(rest, info, tree)
  end
end

ethertypes:add(0x88b5, pint)
