// As much of the NATS protocol as a worker needs: publish, request, and on top of them the leader read and the put-once
// of docs/wire.md, section 11. A program with a NATS client at hand needs only the last two.
import { randomBytes } from 'node:crypto'
import net from 'node:net'

export const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

export function connect (address) {
  const url = new URL(address), inbox = `_INBOX.${randomBytes(9).toString('hex')}`, waiting = new Map()
  const socket = net.connect(+url.port || 4222, url.hostname)
  let buffer = Buffer.alloc(0), ids = 0
  socket.write(`CONNECT ${JSON.stringify({ verbose: false, headers: true, no_responders: true, protocol: 1, auth_token: url.username || undefined })}\r\n`)
  socket.on('error', e => console.error(e.message)).on('close', () => process.exit(1))
  socket.on('data', data => {
    buffer = Buffer.concat([buffer, data])
    for (let eol; (eol = buffer.indexOf('\r\n')) >= 0;) {
      const words = buffer.toString('latin1', 0, eol).split(' '), message = words[0].endsWith('MSG'), start = eol + 2
      const size = message ? +words.at(-1) + 2 : 0
      if (buffer.length < start + size) return
      if (words[0] === 'PING') socket.write('PONG\r\n')
      if (words[0] === '-ERR') console.error(words.join(' '))
      if (message) {
        const heads = words[0] === 'HMSG' ? +words.at(-2) : 0, [first, ...lines] = buffer.toString('latin1', start, start + heads).split('\r\n')
        const headers = Object.fromEntries(lines.filter(Boolean).map(l => [l.slice(0, l.indexOf(':')), l.slice(l.indexOf(':') + 1).trim()]))
        const body = Buffer.from(buffer.subarray(start + heads, start + size - 2))
        waiting.get(+words[2])?.({ status: +first.split(' ')[1] || 0, headers, reply: words[3], body })
      }
      buffer = buffer.subarray(start + size)
    }
  })

  function publish (subject, body = '', headers = {}, reply = '') {
    const head = Buffer.from(`NATS/1.0\r\n${Object.entries(headers).map(([k, v]) => `${k}: ${v}\r\n`).join('')}\r\n`), b = Buffer.from(body)
    socket.write(Buffer.concat([Buffer.from(`HPUB ${subject} ${reply} ${head.length} ${head.length + b.length}\r\n`), head, b, Buffer.from('\r\n')]))
  }
  function request (subject, body, headers) {
    const id = ++ids
    socket.write(`SUB ${inbox}.${id} ${id}\r\nUNSUB ${id} 1\r\n`)
    publish(subject, body, headers, `${inbox}.${id}`)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => { waiting.delete(id); reject(Error(`no answer from ${subject}`)) }, 5000)
      waiting.set(id, m => { clearTimeout(timer); waiting.delete(id); resolve(m) })
    })
  }
  async function read (stream, subject) { // the last message there, or null; from the leader
    const r = JSON.parse((await request(`$JS.API.STREAM.MSG.GET.${stream}`, JSON.stringify({ last_by_subj: subject }))).body)
    if (r.error && r.error.err_code !== 10037) throw Error(r.error.description)
    const deleted = /KV-Operation|Nats-Marker-Reason/.test(Buffer.from(r.message?.hdrs ?? '', 'base64'))
    return r.error || deleted ? null : Buffer.from(r.message.data ?? '', 'base64')
  }
  async function putOnce (stream, subject, body, headers) { // null: stored; else the winner
    for (;; await pause(250)) {
      const answer = await request(subject, body, headers).then(m => JSON.parse(m.body), () => ({ error: {} }))
      if (!answer.error) return null
      const winner = answer.error.err_code === 10077 ? await read(stream, subject).catch(() => null) : null
      if (winner) return winner
    }
  }
  return { publish, request, read, putOnce, close: () => { socket.removeAllListeners('close'); socket.end() } }
}
