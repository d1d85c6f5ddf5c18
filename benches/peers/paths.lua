-- Requests of random paths out of a file, one a line: wrk -s paths.lua URL -- FILE
local requests = {}

function init(args)
  math.randomseed(1)
  for path in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("GET", path)
  end
end

function request()
  return requests[math.random(#requests)]
end
