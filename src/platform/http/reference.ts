import { html, raw } from 'hono/html'
import { z } from 'zod'
import type { ProblemKind } from '../problem.ts'
import { type Endpoint, pathParameterNames } from './endpoint.ts'
import type { EndpointGroup } from './openapi.ts'
import { type Status, statusesOf } from './statuses.ts'

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
  nav a { display: inline-block; margin-right: 1.25rem } ul.toc { columns: 16rem; padding-left: 1.1rem }
`

type Markup = ReturnType<typeof html>

const page = (title: string, content: Markup): string =>
  String(html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · Assay</title>
        <style>${raw(STYLE)}</style>
      </head>
      <body>
        <nav aria-label="Pages"><a href="/">Assay</a><a href="/docs">API reference</a><a href="/docs/problems">Problems</a><a href="/openapi.json">OpenAPI</a></nav>
        <main>${content}</main>
      </body>
    </html>`)

export const homePage = (version: string): string =>
  page(
    'Welcome',
    html`<h1>Assay is running</h1>
      <p>Which model, coding agent and reasoning level works best on your own code, and what it costs.</p>
      <p>Every call needs a key, sent as <code>Authorization: Bearer assay_…</code>. The server printed the first one when it started for the first time.</p>
      <ul>
        <li><a href="/docs">API reference</a>: every operation, field and status</li>
        <li><a href="/docs/problems">Problems</a>: what each error means and what to do</li>
        <li><a href="/openapi.json">OpenAPI 3.1</a> for generators</li>
        <li><a href="/readyz">Readiness</a> and <a href="/metrics">metrics</a></li>
      </ul>
      <p class="soft">Version ${version}</p>`,
  )

export const problemsPage = (problems: ProblemKind[]): string =>
  page(
    'Problems',
    html`<h1>Problems</h1>
      <p>Every failure is answered as <code>application/problem+json</code> (RFC 9457). <code>code</code> is stable; <code>requestId</code> finds the line in the server's log.</p>
      ${problems.map(
        (problem) => html`<article id="${problem.code}">
          <h3><code>${problem.code}</code> · ${problem.status}</h3>
          <p>${problem.title}.</p>
          <p class="soft">${problem.meaning} ${problem.retryable ? 'The same request may succeed later.' : ''}</p>
        </article>`,
      )}`,
  )

export const referencePage = (groups: EndpointGroup[]): string =>
  page(
    'API reference',
    html`<h1>API reference</h1>
      ${groups.map(
        (group) => html`<h2>${group.name}</h2>
          <ul class="toc">${group.endpoints.map((endpoint) => html`<li><a href="#${endpoint.id}">${endpoint.summary}</a></li>`)}</ul>
          ${group.endpoints.map(operation)}`,
      )}`,
  )

const operation = (endpoint: Endpoint): Markup =>
  html`<article id="${endpoint.id}">
    <h3>${endpoint.summary}</h3>
    <p><code>${endpoint.method} ${endpoint.path}</code></p>
    <p class="soft">Access: ${endpoint.access}.${endpoint.creates ? ' Takes Idempotency-Key.' : ''}</p>
    ${fields(
      'Path',
      pathParameterNames(endpoint.path).map((name) => [name, 'string', '']),
    )}
    ${endpoint.query ? fields('Query', schemaFields(endpoint.query)) : ''}
    ${endpoint.body ? fields('Body', schemaFields(endpoint.body)) : ''}
    ${endpoint.example ? html`<pre><code>${JSON.stringify(endpoint.example, null, 2)}</code></pre>` : ''}
    ${fields(
      'Answer',
      [...statusesOf(endpoint)].map(([status, answer]) => [String(status), answerName(answer), answerText(answer)]),
    )}
  </article>`

const answerName = ({ schema }: Status): string => {
  if (!schema) return ''
  const id = schema.meta()?.id
  return typeof id === 'string' ? id : Object.keys(propertiesOf(schema, 'output')).join(', ')
}

const answerText = ({ problems }: Status): Markup | string =>
  problems.length === 0 ? '' : html`${problems.map(({ code }) => html`<a href="/docs/problems#${code}">${code}</a> `)}`

type Row = [name: string, type: string, text: Markup | string]

const fields = (heading: string, rows: Row[]): Markup | string =>
  rows.length === 0
    ? ''
    : html`<table>
        <tr><th scope="col">${heading}</th><th scope="col">Type</th><th scope="col"></th></tr>
        ${rows.map(([name, type, text]) => html`<tr><td><code>${name}</code></td><td>${type}</td><td>${text}</td></tr>`)}
      </table>`

type Property = {
  type?: string
  enum?: string[]
  anyOf?: Property[]
  $ref?: string
  format?: string
  description?: string
}

function propertiesOf(schema: z.ZodType, io: 'input' | 'output'): Record<string, Property> {
  const { properties } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return (properties ?? {}) as Record<string, Property>
}

function schemaFields(schema: z.ZodType): Row[] {
  const { required = [] } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return Object.entries(propertiesOf(schema, 'input')).map(([name, property]) => [
    name,
    typeName(property),
    `${required.includes(name) ? 'Required. ' : ''}${property.description ?? ''}`,
  ])
}

function typeName(property: Property): string {
  if (property.enum) return property.enum.join(' | ')
  if (property.anyOf) return property.anyOf.map(typeName).join(' | ')
  if (property.$ref) return property.$ref.replace(/^.*\//, '')
  return property.format ?? property.type ?? 'any'
}
