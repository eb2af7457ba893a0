// A Mulligan worker written from docs/wire.md alone. It serves one idempotent tool, one call at a time; "step" is a step
// of section 12 there. Start: node worker.mjs nats://TOKEN@127.0.0.1:4222, stop: Ctrl-C.
import { createHash, randomBytes } from 'node:crypto'
import { connect, pause } from './nats.mjs'

const tool = { name: 'words/count', queue: 'words', effect: 'idempotent', description: 'Counts the words of a text.',
  schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] } }
const count = text => JSON.stringify({ words: text.split(/\s+/).filter(Boolean).length })

const nats = connect(process.argv[2] ?? 'nats://127.0.0.1:4222'), me = `peer-${process.pid}`, random = () => randomBytes(8).toString('hex')
const result = (id, body, headers) => nats.putOnce('MULLIGAN_RESULTS', `mulligan.result.${id}`, body, headers)
const story = (subject, v) => nats.putOnce('MULLIGAN_RECOVERY', `mulligan.${subject}`, JSON.stringify({ version: '1', ...v, at: new Date() }), { 'Mulligan-Version': 1 })
const ascii = v => JSON.stringify(v).replace(/[\u007f-\uffff]/g, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'))
const control = key => nats.read('KV_MULLIGAN_CONTROL', `$KV.MULLIGAN_CONTROL.${key}`)

async function handle ({ headers: h, body, reply }, pulled, lease, stopping) {
  const [delivery, sequence] = reply.split('.').slice(reply.split('.').length > 9 ? 6 : 4).map(Number), started = new Date()
  const call = h['Mulligan-Call'], run = h['Mulligan-Run'], n = +h['Mulligan-Dispatch'], id = `${run}.${call}`
  const mine = () => Date.now() - pulled < lease, ack = () => mine() && nats.publish(reply, '+ACK')
  if (!mine()) return // step 0
  if (stopping || h['Mulligan-Version'] !== '1' || JSON.parse(h['Mulligan-Tool']) !== tool.name) return nats.publish(reply, '-NAK')
  const timer = setInterval(() => { if (mine()) { pulled = Date.now(); nats.publish(reply, '+WPI') } }, lease / 3)
  const settled = () => story(`settled.${id}.${n}`, { by: me }).then(ack)
  const end = (status, output, more) => result(id, output, { ...Object.fromEntries(['Version', 'Call', 'Run', 'Tool', 'Original-Tool', 'Ref', 'Labels', 'Dispatch', 'Recovered-By']
    .map(k => `Mulligan-${k}`).filter(k => h[k]).map(k => [k, h[k]])), 'Mulligan-Status': status, 'Mulligan-Ended': new Date().toISOString(), ...more })
  const late = outcome => story(`late.${id}.${n}.${random()}`, { why: 'another outcome was there', worker: me, ...outcome })
  const [digest, size, chunks] = (h['Mulligan-Payload'] ?? '').split(';')
  const fail = async (code, error, more) => { // step 4
    const envelope = Object.fromEntries(Object.entries(h).filter(([k]) => !/Version|Payload|Task-Ref|Ambiguous|Repeat|^Nats/.test(k)).map(([k, v]) =>
      [k.replace('Mulligan-', '').toLowerCase().replaceAll('-', '_'), /^["{]/.test(v) ? JSON.parse(v) : /Attempt|Dispatch|-Ms/.test(k) ? +v : v]))
    const failure = { envelope, input: digest ? { payload: { digest, size: +size, chunks: +chunks } } : { base64: body.toString('base64') }, output: { text: error }, code, error, worker: me, started, ...more }
    const winner = await story(`failure.${id}.${n}`, failure)
    if (winner && JSON.parse(winner).worker !== me) await late({ failure: { version: '1', ...failure, at: new Date() } })
    ack()
  }
  try {
    const again = n > 0 || delivery > 1 || h['Mulligan-Repeat']
    if (again && await nats.read('MULLIGAN_RESULTS', `mulligan.result.${id}`)) return await settled() // step 1
    const failed = k => nats.read('MULLIGAN_RECOVERY', `mulligan.failure.${id}.${k}`)
    if (again && await failed(n)) return ack()
    const passed = Date.parse(h['Mulligan-Deadline']) <= Date.now() ? '{"status":"expired","code":"deadline","reason":"its deadline passed before it ran"}' : 'null' // step 2
    const stop = JSON.parse(await control(`call.${id}`) ?? await control(`run.${run}`) ?? passed)
    if (stop) {
      let before = { text: `${stop.status}: ${stop.reason}` }
      for (let k = 0, f; k < n; k++) if ((f = JSON.parse(await failed(k))) && (f.executed || f.code === 'invalid_arguments')) before = f.output
      const { digest: d, size: s, chunks: c } = before.payload ?? {}, why = { 'Mulligan-Code': stop.code, 'Mulligan-Reason': ascii(stop.reason), 'Mulligan-Is-Error': 1 }
      await end(stop.status, before.text ?? Buffer.from(before.base64 ?? '', 'base64'), { ...why, 'Mulligan-Attempts': h['Mulligan-Attempt'], ...(d && { 'Mulligan-Payload': `${d};${s};${c}` }) })
      return await settled()
    }
    let mark = 0, token = random()
    while (again) { // step 3
      if (++mark > 3) return await fail('worker_lost', `Tool '${tool.name}' was started three times, and its worker was lost each time`, { executed: true, ambiguous: true })
      const winner = JSON.parse(await story(`start.${id}.${n}.${mark}`, { token, sequence, delivery, worker: me }) ?? 'null')
      if (winner?.tombstone) return ack()
      if (!winner || winner.token === token) break
    }
    let input = body
    if (digest) { // section 7
      input = Buffer.concat(await Promise.all(Array.from({ length: +chunks }, (_, i) => nats.read('MULLIGAN_PAYLOADS', `mulligan.payload.${digest}.${i}`))))
      if (createHash('sha256').update(input).digest('hex') !== digest) throw Error(`payload ${digest} is not what its name says`)
    }
    let args
    try { args = JSON.parse(input) } catch { /* said below */ }
    if (typeof args?.text !== 'string') return await fail('invalid_arguments', 'the arguments must be an object with a string "text"', { executed: false, mark })
    const output = count(args.text) // step 4
    const winner = await end('succeeded', output, { 'Mulligan-Attempts': +h['Mulligan-Attempt'] + 1, 'Mulligan-Worker': ascii(me) })
    if (winner && winner.toString() !== output) await late({ output: { text: output } })
    await (again || h['Mulligan-Probe'] ? settled() : ack()) // step 5
  } finally { clearInterval(timer) }
}

const ask = async (subject, v) => JSON.parse((await nats.request(subject, JSON.stringify(v))).body.toString() || '{}')
const offer = async more => { const r = await ask('mulligan.svc.offer', { version: '1', worker: me, tools: [tool], ...more }); if (r.error) throw Error(r.error); return r.lease_ms }
let stopping = false
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { stopping = true })
setInterval(() => offer().catch(e => console.error(e.message)), await offer() / 3)
const { config } = await ask(`$JS.API.CONSUMER.INFO.MULLIGAN_CALLS.${tool.queue}-normal`), lease = config.ack_wait / 1e6
console.log(`${me} serves ${tool.name}`)
for (let turn = 0; !stopping; turn++) {
  const lane = ['high', 'normal', 'high', 'retry', 'normal', 'low'][turn % 6], pulled = Date.now()
  const m = await nats.request(`$JS.API.CONSUMER.MSG.NEXT.MULLIGAN_CALLS.${tool.queue}-${lane}`, '{"batch":1,"expires":100000000}').catch(e => console.error(e.message))
  if (m?.reply?.startsWith('$JS.ACK')) await handle(m, pulled, lease, stopping).catch(e => console.error(e.message))
  else if (m?.status === 503) await pause(100)
}
await offer({ withdraw: true })
nats.close()
process.exit(0)
