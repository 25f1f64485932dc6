// Writes a JSON line for each test with its id (file, names of its suites, own name), status and message. A suite is
// reported only if it failed by itself, not through one of its tests.
const STATUSES = { 'test:pass': 'passed', 'test:fail': 'failed' }

// biome-ignore lint/style/noDefaultExport: Node asks for it.
export default async function* report(events) {
  let count = 0
  let names = []
  for await (const { type, data } of events) {
    if (type === 'test:start') names = [...names.slice(0, data.nesting), data.name]
    if (STATUSES[type] === undefined || isPlainSuite(type, data)) continue
    count += 1
    const path = [data.file, ...names.slice(0, data.nesting), data.name].filter((part) => part !== undefined)
    yield `${JSON.stringify({ id: path.join(' > '), ...toResult(type, data) })}\n`
  }
  yield `${JSON.stringify({ end: count })}\n`
}

const isPlainSuite = (type, { details }) =>
  details?.type === 'suite' && (type === 'test:pass' || details.error?.failureType === 'subtestsFailed')

function toResult(type, { skip, todo, details }) {
  const isSkipped = skip !== undefined || todo !== undefined
  const error = details?.error
  const message = type === 'test:fail' ? String(error?.cause?.stack ?? error?.cause ?? error?.message ?? '') : ''
  return { status: isSkipped ? 'skipped' : STATUSES[type], message: message.slice(0, 2000) }
}
