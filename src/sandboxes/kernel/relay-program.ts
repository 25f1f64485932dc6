import * as protocol from '../resumable-protocol.ts'

type RelayOptions = {
  /** Folder of the sockets, as the relay sees it. Each is named after its port. */
  folder: string
  /** Time for which a connection waits for a worker and its gateway. */
  resumeMs?: number
}

/**
 * Returns the program of a relay: plain JavaScript for Node, not compiled. Each argument is a port of the loopback that it
 * listens on, `8080`, or `resumable:8080` for one whose connections are resumed. It prints `open` when it listens on all.
 */
export const buildRelayProgram = ({ folder, resumeMs = protocol.RESUME_MS }: RelayOptions): string =>
  `const FOLDER = ${JSON.stringify(folder)}, RESUME_MS = ${resumeMs}
const FRAME = ${JSON.stringify(protocol.FRAME)}
const HEADER_BYTES = ${protocol.HEADER_BYTES}, ID_BYTES = ${protocol.ID_BYTES}, OFFSET_BYTES = ${protocol.OFFSET_BYTES}
const WINDOW_BYTES = ${protocol.WINDOW_BYTES}, CHUNK_BYTES_MIN = ${protocol.CHUNK_BYTES_MIN}
${PROGRAM}`

const PROGRAM = `const fs = require('node:fs')
const net = require('node:net')
const { randomBytes } = require('node:crypto')

// Twice the calls that a gateway allows at once. Each connection takes up to 0.5 MB, and an agent must not use up the memory.
const CONNECTIONS_MAX = 128
const PLAIN_CONNECTIONS_MAX = 512
// Timeouts of an orderly close and of the gateway's first frame.
const LINGER_MS = 5000, WELCOME_MS = 30000
// Pause before a broken pipe is replaced, which doubles with each failure.
const PAUSE_MS = 20, PAUSE_MAX_MS = 500
// Interval at which the socket of the worker is checked for a replacement.
const WATCH_MS = 1000
// Time after which a connection is given up if gateways answer that they do not know it. A gateway that knows it is found
// within a few tries.
const UNKNOWN_MS = Math.min(15000, RESUME_MS / 4)
const UNAVAILABLE = 'HTTP/1.1 503 Service Unavailable\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n\\r\\n'

const forward = (near, path) => {
  const far = net.connect({ path, allowHalfOpen: true })
  near.on('error', () => far.destroy())
  near.on('close', () => {
    if (!far.destroyed) far.end()
  })
  far.on('error', () => near.destroy()).on('close', () => near.destroy())
  near.pipe(far).pipe(near)
}

const buildFrame = (type, payload = Buffer.alloc(0)) => {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt8(type)
  header.writeUInt32BE(payload.length, 1)
  return Buffer.concat([header, payload])
}
const buildOffset = (offset) => {
  const bytes = Buffer.alloc(OFFSET_BYTES)
  bytes.writeUIntBE(offset, 0, OFFSET_BYTES)
  return bytes
}
const readOffset = (payload) => payload.readUIntBE(0, OFFSET_BYTES)
const readFrames = (socket, onFrame) => {
  let chunks = [], size = 0, needed = HEADER_BYTES
  socket.on('data', (chunk) => {
    chunks.push(chunk)
    size += chunk.length
    if (size < needed) return
    let bytes = Buffer.concat(chunks)
    for (needed = HEADER_BYTES; bytes.length >= needed; needed = HEADER_BYTES) {
      needed += bytes.readUInt32BE(1)
      if (bytes.length < needed) break
      onFrame(bytes[0], bytes.subarray(HEADER_BYTES, needed))
      bytes = bytes.subarray(needed)
    }
    chunks = [bytes]
    size = bytes.length
  })
}
/** Closes a socket in order, and reads it meanwhile: otherwise a reset would discard the last bytes. */
const closeSoon = (socket) => {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
  socket.resume()
  socket.end()
}

/** Bytes of the agent that the gateway has not acknowledged, with their offsets. The end takes one offset. */
const createOutbox = () => {
  let chunks = [], first = 0, last = 0, next = 0, isEnded = false, isEndSent = false
  return {
    isFull: () => last - first >= WINDOW_BYTES,
    isDone: () => first > last,
    end() {
      isEnded = true
    },
    add(chunk) {
      const before = chunks.at(-1)
      if (before && before.length + chunk.length <= CHUNK_BYTES_MIN) chunks[chunks.length - 1] = Buffer.concat([before, chunk])
      else chunks.push(chunk)
      last += chunk.length
    },
    takeFrame() {
      let start = first
      for (const chunk of chunks) {
        const end = start + chunk.length
        if (next < end) {
          const piece = chunk.subarray(next - start)
          next = end
          return buildFrame(FRAME.data, piece)
        }
        start = end
      }
      if (!isEnded || isEndSent) return
      isEndSent = true
      return buildFrame(FRAME.end)
    },
    acknowledge(offset) {
      while (chunks.length > 0 && first < offset) {
        const piece = chunks[0].subarray(offset - first)
        first += chunks[0].length - piece.length
        if (piece.length > 0) chunks[0] = piece
        else chunks.shift()
      }
      first = Math.max(first, offset)
    },
    rewind(offset) {
      next = Math.min(offset, last)
      isEndSent = offset > last
    },
  }
}

/** Carries a connection of the agent over pipes to the gateway: a new one whenever one breaks. */
const resume = (near, path, onDone) => {
  const id = randomBytes(ID_BYTES), outbox = createOutbox()
  let pipe, version, timer, isOpen = false, wasOpen = false, isLeft = false, isDone = false
  let received = 0, consumed = 0, acknowledged = 0, hasEnded = false
  let pauseMs = PAUSE_MS, lostAt = performance.now(), unknownAt

  const finish = () => {
    isDone = true
    isOpen = false
    clearTimeout(timer)
    closeSoon(pipe)
    if (near.closed) onDone()
  }
  const flush = () => {
    while (isOpen && !pipe.writableNeedDrain) {
      const frame = outbox.takeFrame()
      if (!frame) return
      pipe.write(frame)
    }
  }
  const finishIfComplete = () => {
    if (hasEnded && acknowledged === received && outbox.isDone()) finish()
  }
  const acknowledge = () => {
    if (!isOpen) return
    acknowledged = consumed
    pipe.write(buildFrame(FRAME.ack, buildOffset(consumed)))
    finishIfComplete()
  }
  const consume = (count) => (error) => {
    if (error || isDone) return
    consumed += count
    if (consumed - acknowledged >= WINDOW_BYTES / 4 || hasEnded) acknowledge()
  }
  const reset = () => {
    pipe.write(buildFrame(FRAME.reset))
    finish()
  }
  const giveUp = () => {
    // Some programs retry forever after a connection without an answer.
    if (!wasOpen) near.write(UNAVAILABLE)
    closeSoon(near)
    finish()
  }
  const frames = {
    [FRAME.welcome](payload) {
      isOpen = wasOpen = true
      lostAt = unknownAt = undefined
      pauseMs = PAUSE_MS
      pipe.setTimeout(0)
      outbox.rewind(readOffset(payload))
      if (isLeft) return reset()
      acknowledge()
      flush()
    },
    [FRAME.unknown]() {
      unknownAt ??= performance.now()
      pipe.destroy()
    },
    [FRAME.unavailable]: () => wasOpen ? pipe.destroy() : giveUp(),
    [FRAME.data](payload) {
      received += payload.length
      near.write(payload, consume(payload.length))
    },
    [FRAME.end]() {
      received += 1
      hasEnded = true
      near.end(consume(1))
    },
    [FRAME.ack](payload) {
      outbox.acknowledge(readOffset(payload))
      if (!outbox.isFull()) near.resume()
      flush()
      finishIfComplete()
    },
    [FRAME.reset]() {
      closeSoon(near)
      finish()
    },
  }
  const connect = () => {
    version = readVersion(path)
    const socket = pipe = net.connect(path)
    socket.setNoDelay(true)
    socket.setTimeout(WELCOME_MS, () => socket.destroy())
    socket.on('connect', () => socket.write(buildFrame(FRAME.hello, Buffer.concat([id, Buffer.from([wasOpen ? 0 : 1]), buildOffset(received)]))))
    readFrames(socket, (type, payload) => {
      if (!isDone && !socket.destroyed) frames[type]?.(payload)
    })
    socket.on('drain', flush).on('error', () => {}).on('close', retry)
  }
  const retry = () => {
    isOpen = false
    if (isDone) return
    const now = performance.now()
    lostAt ??= now
    const isUnknown = unknownAt !== undefined && now - unknownAt > UNKNOWN_MS
    if (now - lostAt > RESUME_MS || isUnknown || (isLeft && !wasOpen)) return giveUp()
    timer = setTimeout(connect, pauseMs)
    pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)
  }
  near.setNoDelay(true)
  near.on('data', (chunk) => {
    if (isDone) return
    outbox.add(chunk)
    if (outbox.isFull()) near.pause()
    flush()
  })
  near.on('end', () => {
    outbox.end()
    flush()
  })
  near.on('error', () => {})
  near.on('close', (hasFailed) => {
    if (isDone) return onDone()
    if (near.readableEnded && near.writableFinished && !hasFailed) return
    isLeft = true
    if (isOpen) reset()
  })
  connect()
  return {
    leaveOther(current) {
      if (version !== current) pipe.destroy()
    },
  }
}

/** Identifies the socket of a worker among those at the same path. */
const readVersion = (path) => {
  try {
    const { ino, mtimeMs } = fs.statSync(path)
    return ino + ' ' + mtimeMs
  } catch {}
}
/** Leaves the pipes of a worker that was replaced: it may hang without closing them. */
const watch = (path, connections) => setInterval(() => {
  const version = readVersion(path)
  if (version) for (const connection of connections) connection.leaveOther(version)
}, WATCH_MS)

const ports = process.argv.slice(1)
let openPorts = 0
const onOpen = () => {
  openPorts += 1
  if (openPorts === ports.length) console.log('open')
}
for (const argument of ports) {
  const [port, kind] = argument.split(':').reverse()
  const path = FOLDER + '/' + port
  const connections = new Set()
  const serve = (near) => {
    if (connections.size >= CONNECTIONS_MAX) return near.destroy()
    const connection = resume(near, path, () => connections.delete(connection))
    connections.add(connection)
  }
  const isResumable = kind === 'resumable'
  if (isResumable) watch(path, connections)
  const server = net.createServer({ allowHalfOpen: true }, isResumable ? serve : (near) => forward(near, path))
  if (!isResumable) server.maxConnections = PLAIN_CONNECTIONS_MAX
  server.listen(Number(port), '127.0.0.1', onOpen)
}`
