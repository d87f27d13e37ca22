-- Requests of one load for wrk, and its figures as one line of JSON at the end.
-- Arguments: GET|POST, path, rows of a body (0: none). {k} in the path is a random key, {h} and {t} those 99 and 999 further on.
local method, path, rows
local bodies = {}
local next_key = 0

function init(args)
  method, path, rows = args[1], args[2], tonumber(args[3])
  math.randomseed(7)
  for number = 1, 16 do
    local lines = {}
    for row = 1, rows do
      next_key = next_key + 1
      lines[row] = string.format("%d\t2020-01-%02d\t%d.5\tvalue %d\n", next_key, next_key % 28 + 1, next_key, next_key)
    end
    bodies[number] = table.concat(lines)
  end
end

function request()
  if method == "POST" then
    return wrk.format("POST", path, nil, bodies[math.random(#bodies)])
  end
  local key = math.random(0, 998000)
  return wrk.format("GET", (path:gsub("{k}", key):gsub("{h}", key + 99):gsub("{t}", key + 999)))
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "micros": %d, "p50": %d, "p99": %d, "errors": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
