-- wrk: a ping some milliseconds after the last one's answer.

function delay()
  return 2
end

function done(_, latency)
  io.write(("%d %d %d\n"):format(latency:percentile(50), latency:percentile(99), latency.max))
end
