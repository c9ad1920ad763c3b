-- lua5.4 tests/json_query.lua FILE EXPRESSION
-- Prints the value of a Lua expression over the JSON text in FILE, which it
-- sees as d: objects and arrays are tables (from 1), null is `null`. A decoder
-- of its own, so that what spectune prints is checked by something else.
local null = setmetatable({}, { __tostring = function() return "null" end })
local text, at

local function fail(what)
  error(("%s at byte %d"):format(what, at), 0)
end

local function skip()
  at = text:find("[^ \t\r\n]", at) or #text + 1
end

local escapes = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f" }

local function decode_string()
  local parts = {}
  at = at + 1
  while true do
    local stop = text:find('["\\\0-\31]', at) or fail("string without end")
    parts[#parts + 1] = text:sub(at, stop - 1)
    local c = text:sub(stop, stop)
    at = stop + 1
    if c == '"' then
      return table.concat(parts)
    elseif c ~= "\\" then
      fail("control character in a string")
    end
    local e = text:sub(at, at)
    at = at + 1
    if e == "u" then
      local digits = text:match("^%x%x%x%x", at) or fail("bad \\u")
      parts[#parts + 1] = utf8.char(tonumber(digits, 16))
      at = at + 4
    else
      parts[#parts + 1] = escapes[e] or e
    end
  end
end

local decode

-- The elements up to `close`, each read by `element`.
local function decode_list(close, element)
  at = at + 1
  skip()
  if text:sub(at, at) == close then
    at = at + 1
    return
  end
  while true do
    element()
    skip()
    local c = text:sub(at, at)
    at = at + 1
    if c == close then
      return
    elseif c ~= "," then
      fail("expected , or " .. close)
    end
    skip()
  end
end

local function decode_object()
  local object = {}
  decode_list("}", function()
    local key = decode_string()
    skip()
    if text:sub(at, at) ~= ":" then
      fail("expected :")
    end
    at = at + 1
    if object[key] ~= nil then
      fail("field " .. key .. " twice")
    end
    object[key] = decode()
  end)
  return object
end

local function decode_array()
  local array = {}
  decode_list("]", function()
    array[#array + 1] = decode()
  end)
  return array
end

local words = { ["true"] = true, ["false"] = false, null = null }

function decode()
  skip()
  local c = text:sub(at, at)
  if c == "{" then
    return decode_object()
  elseif c == "[" then
    return decode_array()
  elseif c == '"' then
    return decode_string()
  end
  local number = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local token = number or text:match("^%a+", at) or fail("unexpected text")
  at = at + #token
  if number then
    return tonumber(number)
  end
  local value = words[token]
  if value == nil then
    fail("unknown word " .. token)
  end
  return value
end

local file, expression = ...
text = assert(io.open(file, "rb")):read("a")
at = 1
local d = decode()
skip()
if at <= #text then
  fail("text after the value")
end

-- True when every element of a list satisfies the function.
local function all(list, good)
  for i, v in ipairs(list) do
    if not good(v, i) then
      return false
    end
  end
  return true
end

local scope = setmetatable({ d = d, null = null, all = all }, { __index = _G })
local chunk = assert(load("return " .. expression, "=expression", "t", scope))
print(tostring(chunk()))
