import { html, raw } from 'hono/html'
import type { z } from 'zod'
import type { ProblemKind } from '../problem.ts'
import { type Endpoint, listPathParameters } from './endpoint.ts'
import { type EndpointGroup, type EndpointStatus, listStatuses, ProblemBody, toJsonSchema } from './openapi.ts'

const STYLE = `
  :root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #d9d9e0; --accent: #0b68cb; --back: #fff; --code: #f4f5f7 }
  @media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --soft: #b0b4ba; --line: #363a3f; --accent: #70b8ff; --back: #111113; --code: #1b1d20 } }
  * { box-sizing: border-box }
  body { margin: 0 auto; padding: 2rem 1.25rem 5rem; max-width: 60rem; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back) }
  h1 { font-size: 1.75rem; letter-spacing: -.01em } h2 { margin-top: 3rem; font-size: 1.25rem } h3 { margin: 0 0 .25rem; font-size: 1rem }
  a { color: var(--accent) } p { margin: .25rem 0 } .soft { color: var(--soft) }
  code { font: .875em ui-monospace, monospace; background: var(--code); border-radius: 4px; padding: .1em .3em; overflow-wrap: anywhere }
  pre { background: var(--code); border-radius: 6px; padding: .75rem 1rem; overflow-x: auto } pre code { padding: 0 }
  article { border-top: 1px solid var(--line); padding: 1.25rem 0 }
  table { border-collapse: collapse; margin-top: .75rem; width: 100%; font-size: .875rem; display: block; overflow-x: auto }
  td, th { text-align: left; vertical-align: top; padding: .35rem 1rem .35rem 0; border-bottom: 1px solid var(--line) }
  td:first-child code { white-space: nowrap }
  nav > a { display: inline-block; margin-right: 1rem } ul.toc { columns: 16rem; padding-left: 1.1rem }
`

const renderPage = (title: string, content: Markup): string =>
  String(html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · Assay</title>
        <style>${raw(STYLE)}</style>
      </head>
      <body>
        <nav aria-label="Pages"><a href="/">Assay</a> <a href="/docs">API reference</a> <a href="/docs/problems">Problems</a> <a href="/openapi.json">OpenAPI</a></nav>
        <main>${content}</main>
      </body>
    </html>`)

export const renderProblemsPage = (problems: ProblemKind[]): string =>
  renderPage(
    'Problems',
    html`<h1>Problems</h1>
      <p>Every failure is answered as <code>application/problem+json</code> (RFC 9457). <code>code</code> is stable; <code>requestId</code> finds the line in the server's log.</p>
      ${problems.map(
        (problem) => html`<article id="${problem.code}">
          <h3><code>${problem.code}</code> · ${problem.status}</h3>
          <p>${problem.title}.</p>
          <p class="soft">${renderProse(problem.meaning)} ${problem.retryable ? 'The same request may succeed later.' : ''}</p>
        </article>`,
      )}`,
  )

/** Renders every operation, then every named schema once. */
export function renderReferencePage(groups: EndpointGroup[]): string {
  const shapes: Record<string, ReferenceShape> = {}
  toShape(ProblemBody, 'output', shapes)
  const sections = groups.map((group) => renderSection(group, shapes))
  return renderPage(
    'API reference',
    html`<h1>API reference</h1>
      <nav aria-label="Sections">
        <ul class="toc">
          <li><a href="#keys">Keys</a></li>
          ${groups.map(({ name, endpoints }) => html`<li><a href="#${toAnchor(name)}">${name}</a> <span class="soft">${endpoints.length}</span></li>`)}
          <li><a href="#schemas">Schemas</a> <span class="soft">${Object.keys(shapes).length}</span></li>
        </ul>
      </nav>
      ${KEYS_SECTION}${sections}${renderSchemas(shapes)}`,
  )
}

const KEYS_SECTION = html`<h2 id="keys">Keys</h2>
  <p>Every request needs a key, unless its access is <em>public</em>:</p>
  <pre><code>curl -H "Authorization: Bearer assay_…" https://assay.example.org/api/key</code></pre>
  <p>The first start of the service prints an admin key of the workspace <code>local</code>, once. <code>assay keys create</code> creates more. A key belongs to one workspace and has a permission:</p>
  <ul>
    <li><em>read</em> reads everything except secrets;</li>
    <li><em>write</em> also adds, compares, decides and publishes;</li>
    <li><em>admin</em> also manages keys and credentials, and withdraws releases.</li>
  </ul>
  <p>Access <em>key</em> accepts any permission. Access <em>operator</em> requires <code>ASSAY_OPERATOR_KEY</code>, which belongs to no workspace. A browser exchanges a key for a <a href="#createSession">session</a>, and sends its <code>csrfToken</code> as <code>X-CSRF-Token</code> with every change.</p>
  <p>Lists take <code>limit</code> and <code>cursor</code>; <code>nextCursor</code> of a response is the cursor of the next page. A repeated <code>Idempotency-Key</code> returns the first response again. Errors are a <a href="#schema-Problem">Problem</a> with a stable <a href="/docs/problems">code</a>.</p>`

const toAnchor = (name: string): string => `section-${name.toLowerCase().replaceAll(' ', '-')}`

type ReferenceShapes = Record<string, ReferenceShape>

const renderSection = ({ name, endpoints }: EndpointGroup, shapes: ReferenceShapes): Markup =>
  html`<h2 id="${toAnchor(name)}">${name}</h2>
    <ul class="toc">${endpoints.map((endpoint) => html`<li><a href="#${endpoint.id}">${endpoint.summary}</a></li>`)}</ul>
    ${endpoints.map((endpoint) => renderOperation(endpoint, shapes))}`

const renderOperation = (endpoint: Endpoint, shapes: ReferenceShapes): Markup =>
  html`<article id="${endpoint.id}">
    <h3>${endpoint.summary}</h3>
    <p><code>${endpoint.method} ${endpoint.path}</code></p>
    <p class="soft">Access: ${endpoint.access}.${endpoint.creates ? ' Takes Idempotency-Key.' : ''}${endpoint.conditional ? ' Takes If-Match.' : ''}</p>
    ${renderTable(
      ['Path', 'Type', ''],
      listPathParameters(endpoint.path).map((name): ReferenceRow => [html`<code>${name}</code>`, 'string', '']),
    )}
    ${endpoint.query ? renderRequestTable('Query', toShape(endpoint.query, 'input', shapes)) : ''}
    ${endpoint.body ? renderRequestTable('Body', toShape(endpoint.body, 'input', shapes)) : ''}
    ${endpoint.upload ? html`<p>Body: <code>${endpoint.upload.mediaType}</code>, at most ${endpoint.upload.bytesMax / MIB} MiB.</p>` : ''}
    ${endpoint.progress ? renderProgress(toShape(endpoint.progress, 'output', shapes)) : ''}
    ${endpoint.example ? html`<pre><code>${JSON.stringify(endpoint.example, null, 2)}</code></pre>` : ''}
    ${renderTable(
      ['Answer', 'Body', 'Problems'],
      [...listStatuses(endpoint)].map((each) => buildAnswerRow(endpoint, each, shapes)),
    )}
  </article>`

const renderProgress = (shape: ReferenceShape): Markup =>
  html`<p>With <code>Accept: text/event-stream</code> the response is a stream of <code>progress</code> events, then one <code>result</code> with the body or one <code>problem</code>. Fields of <code>progress</code>: ${renderInline(shape)}</p>`

const MIB = 2 ** 20

const toShape = (schema: z.ZodType, io: 'input' | 'output', shapes: ReferenceShapes): ReferenceShape =>
  toJsonSchema(schema, io, shapes) as ReferenceShape

const renderRequestTable = (heading: string, shape: ReferenceShape): Markup | string =>
  shape.$ref
    ? html`<p>${heading}: ${renderType(shape)}</p>`
    : renderTable([heading, 'Type', ''], buildFieldRows(shape, 'required'))

function buildAnswerRow(
  endpoint: Endpoint,
  [status, answer]: [number, EndpointStatus],
  shapes: ReferenceShapes,
): ReferenceRow {
  const problems = answer.problems.map(({ code }) => html`<a href="/docs/problems#${code}">${code}</a> `)
  return [html`<code>${status}</code>`, renderBody(endpoint, status, { answer, shapes }), html`${problems}`]
}

function renderBody(
  endpoint: Endpoint,
  status: number,
  { answer, shapes }: { answer: EndpointStatus; shapes: ReferenceShapes },
): Markup | string {
  if (answer.schema) return renderInline(toShape(answer.schema, 'output', shapes))
  if (status !== 200) return ''
  if (endpoint.download) return 'a file'
  if (endpoint.events)
    return html`events: ${Object.entries(endpoint.events).map(
      ([name, schema]) => html`<code>${name}</code> ${renderInline(toShape(schema, 'output', shapes))} `,
    )}`
  return endpoint.media ?? ''
}

/** Renders a schema without a name inline. */
const renderInline = (shape: ReferenceShape): Markup | string =>
  shape.properties
    ? html`${Object.entries(shape.properties).map(([name, field]) => html`<code>${name}</code> ${renderType(field)}<br />`)}`
    : renderType(shape)

const renderSchemas = (shapes: ReferenceShapes): Markup => {
  const names = Object.keys(shapes).sort()
  return html`<h2 id="schemas">Schemas</h2>
    <p>Responses may gain fields. Clients must ignore fields they do not know.</p>
    <ul class="toc">${names.map((name) => html`<li>${renderSchemaLink(name)}</li>`)}</ul>
    ${names.map((name) => renderSchema(name, shapes[name] ?? {}))}`
}

const renderSchema = (name: string, shape: ReferenceShape): Markup =>
  html`<article id="schema-${name}">
    <h3>${name}</h3>
    ${shape.description ? html`<p>${renderProse(shape.description)}</p>` : ''}
    ${shape.properties ? renderResponseTable(shape) : renderAlternatives(shape)}
  </article>`

const renderResponseTable = (shape: ReferenceShape): Markup | string =>
  renderTable(['Field', 'Type', ''], buildFieldRows(shape, 'optional'))

function renderAlternatives(shape: ReferenceShape): Markup {
  const objects = listParts(shape).filter(({ properties }) => properties)
  if (objects.length === 0) return html`<p>${renderType(shape)}</p>`
  return html`${objects.map((part, index) => html`${index === 0 ? '' : html`<p>or</p>`}${renderResponseTable(part)}`)}`
}

type Markup = ReturnType<typeof html>
type ReferenceText = Markup | string

/** The part of JSON Schema that our schemas use. */
type ReferenceShape = {
  type?: string | string[]
  properties?: Record<string, ReferenceShape>
  required?: string[]
  items?: ReferenceShape
  additionalProperties?: ReferenceShape | boolean
  enum?: unknown[]
  const?: unknown
  anyOf?: ReferenceShape[]
  oneOf?: ReferenceShape[]
  allOf?: ReferenceShape[]
  $ref?: string
  format?: string
  description?: string
  default?: unknown
  minimum?: number
  maximum?: number
}

type ReferenceRow = [name: ReferenceText, type: ReferenceText, text: ReferenceText]

const renderTable = (headings: readonly [string, string, string], rows: readonly ReferenceRow[]): ReferenceText =>
  rows.length === 0
    ? ''
    : html`<table>
        <tr>${headings.map((heading) => html`<th scope="col">${heading}</th>`)}</tr>
        ${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}
      </table>`

/** Requests mark required fields; responses mark optional ones. */
type Marking = 'required' | 'optional'

/** Builds a row per field, including those of nested unnamed schemas: `scope.kind`, `checks[].ok`. */
function buildFieldRows(shape: ReferenceShape, marking: Marking, prefix = ''): ReferenceRow[] {
  const ownRows = Object.entries(shape.properties ?? {}).flatMap(([name, field]): ReferenceRow[] => [
    [
      html`<code>${prefix}${name}</code>`,
      renderType(field),
      renderDescription(field, isMarked(shape, name, marking) ? marking : null),
    ],
    ...buildInnerRows(field, marking, `${prefix}${name}`),
  ])
  return [...ownRows, ...listParts(shape).flatMap((part) => buildFieldRows(part, marking, prefix))]
}

function buildInnerRows(field: ReferenceShape, marking: Marking, path: string): ReferenceRow[] {
  if (field.items) return buildInnerRows(field.items, marking, `${path}[]`)
  const values = findMapValues(field)
  if (values) return buildInnerRows(values, marking, `${path}{}`)
  const inner = listParts(field).flatMap((part) => buildInnerRows(part, marking, path))
  return [...buildFieldRows({ ...field, ...NO_PARTS }, marking, `${path}.`), ...inner]
}

const NO_PARTS = { anyOf: [], oneOf: [], allOf: [] }

const listParts = ({ anyOf = [], oneOf = [], allOf = [] }: ReferenceShape): ReferenceShape[] => [
  ...anyOf,
  ...oneOf,
  ...allOf,
]

const findMapValues = ({ additionalProperties, properties }: ReferenceShape): ReferenceShape | undefined =>
  typeof additionalProperties === 'object' && !properties ? additionalProperties : undefined

const isMarked = ({ required = [] }: ReferenceShape, name: string, marking: Marking): boolean =>
  required.includes(name) === (marking === 'required')

/** Renders a type in one line, with links to named schemas. */
function renderType(shape: ReferenceShape): ReferenceText {
  if (shape.$ref) return renderSchemaLink(shape.$ref.replace(/^.*\//, ''))
  if (shape.enum) return shape.enum.map(String).join(' | ')
  if (shape.const !== undefined) return JSON.stringify(shape.const)
  const parts = listParts(shape)
  if (parts.length > 0) return joinTexts([...new Set(parts.map(renderType))], shape.allOf ? ' and ' : ' or ')
  if (shape.items) return html`list of ${renderType(shape.items)}`
  const values = findMapValues(shape)
  if (values) return html`map of ${renderType(values)}`
  return shape.format ?? [shape.type ?? 'any'].flat().join(' or ')
}

const renderSchemaLink = (id: string): Markup => html`<a href="#schema-${id}">${id}</a>`

const joinTexts = (parts: ReferenceText[], between: string): Markup =>
  html`${parts.map((part, index) => (index === 0 ? part : html`${between}${part}`))}`

/** Maximum that zod gives to integers without a limit. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER

function renderDescription(shape: ReferenceShape, mark: Marking | null): Markup {
  const { minimum = 0, maximum = NO_LIMIT, default: defaultValue } = shape
  const sentences = [
    ...(mark === null ? [] : [mark === 'required' ? 'Required.' : 'Optional.']),
    ...(shape.description === undefined ? [] : [shape.description]),
    ...(minimum > 0 ? [`At least ${minimum}.`] : []),
    ...(maximum < NO_LIMIT ? [`At most ${maximum}.`] : []),
    ...(defaultValue === undefined ? [] : [`Default: \`${JSON.stringify(defaultValue)}\`.`]),
  ]
  return renderProse(sentences.join(' '))
}

/** Renders text between backticks as code. */
const renderProse = (text: string): Markup =>
  html`${text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
