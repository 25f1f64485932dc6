import { readFileSync } from 'node:fs'
import { Marked, type Tokens } from 'marked'

/** Groups of the guide: files of `docs/` in the order in which they are best read, each with its purpose. */
const GUIDE: readonly { title: string; pages: Readonly<Record<string, string>> }[] = [
  {
    title: 'Get an answer',
    pages: {
      cli: 'Commands, output, exit codes and run files, for terminals and build servers.',
      models: 'Models of the catalog, on your own machine, behind a router or in a cloud.',
      comparisons: 'Run settings on the same tasks, read the answer, and compare agent configurations.',
      batches: 'Turn the merged pull requests of a repository into tasks, and review them.',
      releases: 'Publish results, withdraw them, and read what others published.',
      app: 'A tour of the browser app.',
      mcp: 'Let a coding agent use the service.',
    },
  },
  {
    title: 'Write tasks and add agents',
    pages: {
      tasks: 'How a task runs, how it is verified, and what its environment can have.',
      'verifier-strength': 'Write tests that an agent cannot pass without the work.',
      safety: 'What is checked before a task of somebody else is accepted.',
      harnesses: 'The agent programs that are supported, and how to add your own.',
      extending: 'Recipes for a harness, a sandbox, a language and a public field.',
    },
  },
  {
    title: 'Run the service',
    pages: {
      install: 'Packages, container image, Compose, Debian and Helm.',
      operations: 'Configure, back up, upgrade and watch the service.',
      kubernetes: 'Run sandboxes as pods of a cluster.',
      scaling: 'What a million trials a day ask of a cluster.',
      threats: 'Who may attack what, what holds them off, and what is not covered.',
      gateway: 'How model calls are forwarded, metered and limited.',
      webhooks: 'Receive the events of a workspace.',
      site: 'The public pages and what they show.',
    },
  },
  {
    title: 'Look up',
    pages: { language: 'Every term with its meaning.', states: 'Every state and what changes it.' },
  },
]

/** Paths of the pages that are made from files of `docs/`. Links between these files lead to their pages. */
const PATHS: Readonly<Record<string, string>> = {
  'statistics.md': '/methodology',
  'attacks.md': '/methodology/attacks',
  ...Object.fromEntries(
    GUIDE.flatMap(({ pages }) => Object.keys(pages)).map((name) => [`${name}.md`, `/guide/${name}`]),
  ),
}

type DocumentPage = { title: string; body: string; path: string; sections: { id: string; title: string }[] }

/** Renders a file of `docs/` as HTML. Tags in the Markdown are shown as text. Returns undefined for a file without a page. */
export function renderDocument(file: string): DocumentPage | undefined {
  const path = Object.hasOwn(PATHS, file) ? PATHS[file] : undefined
  if (path === undefined) return undefined
  const text = readDocument(file)
  const sections = [...text.matchAll(/^## (.+)$/gm)].map(([, title = '']) => ({
    id: toSlug(title),
    title: toPlain(title),
  }))
  return { title: readTitle(text), body: markdown.parse(text, { async: false }), path, sections }
}

type GuideEntry = { path: string; title: string; about: string }

/** Lists the pages of the guide by group. */
export const listGuide = (): { title: string; pages: GuideEntry[] }[] =>
  GUIDE.map(({ title, pages }) => ({
    title,
    pages: Object.entries(pages).map(([name, about]) => ({
      path: `/guide/${name}`,
      title: readTitle(readDocument(`${name}.md`)),
      about,
    })),
  }))

const readDocument = (file: string): string => readFileSync(new URL(`../../docs/${file}`, import.meta.url), 'utf8')

const readTitle = (text: string): string => toPlain(/^# (.+)$/m.exec(text)?.[1] ?? '')

/** Removes the marks of links and code from a line of Markdown. */
const toPlain = (line: string): string => line.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '')

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** Capitalises text. Markup, such as code, stays as it is. */
const capitalise = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`

const toSlug = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-|-$/g, '')

const markdown = new Marked({
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escapeHtml(text),
    image: ({ text }: Tokens.Image) => escapeHtml(text),
    // Code blocks can be reached by keyboard, because long lines scroll.
    code: ({ text }: Tokens.Code) => `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`,
    heading({ tokens, depth, text }: Tokens.Heading) {
      return `<h${depth} id="${toSlug(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`
    },
    link({ href, tokens }: Tokens.Link) {
      const label = this.parser.parseInline(tokens)
      const target = toTarget(href)
      return target === undefined ? label : `<a href="${escapeHtml(target)}">${label}</a>`
    },
    table({ header, rows }: Tokens.Table) {
      const toRow = (row: Tokens.TableCell[]) =>
        `<tr>${row.map(({ tokens }) => `<td>${this.parser.parseInline(tokens)}</td>`).join('')}</tr>`
      const head = header
        .map(({ tokens }) => `<th scope="col">${capitalise(this.parser.parseInline(tokens))}</th>`)
        .join('')
      const label = escapeHtml(header.map(({ text }) => text).join(', '))
      return `<div class="scroll" role="group" tabindex="0" aria-label="Table: ${label}"><table><thead><tr>${head}</tr></thead><tbody>${rows.map(toRow).join('')}</tbody></table></div>\n`
    },
  },
})

/** Returns the page of a linked file. Files without a page are named without a link. */
function toTarget(href: string): string | undefined {
  const [file = '', anchor] = href.split('#')
  if (/^https:\/\//.test(href)) return href
  const path = file === '' ? '' : PATHS[file]
  return path === undefined ? undefined : `${path}${anchor === undefined ? '' : `#${anchor}`}`
}
