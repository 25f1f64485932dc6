import { html, raw } from 'hono/html'
import type { Html } from '../../components/format.ts'
import { renderPage, type Site } from '../../components/layout.ts'

/** A page of the documentation. `body` is HTML, rendered from our own Markdown with every tag in it escaped. */
type DocumentView = {
  title: string
  body: string
  path: string
  sections: readonly { id: string; title: string }[]
}

type GuideGroup = { title: string; pages: readonly { path: string; title: string; about: string }[] }

/** Renders the list of all pages of the guide. */
export const renderGuideIndex = (site: Site, groups: readonly GuideGroup[]): string =>
  renderPage(site, {
    title: 'Guide',
    description: 'How to get an answer for your own code, write tasks, add agents, and run the service.',
    path: '/guide',
    content: html`<h1>Guide</h1>
<p class="lead">Start with one command: <code>npx assay run ./my-task --model ollama/qwen3</code>. The pages below explain the rest; the <a href="/docs">API reference</a> lists every request.</p>
${groups.map(renderGroup)}`,
  })

const renderGroup = ({ title, pages }: GuideGroup): Html => html`<section class="guide"><h2>${title}</h2>
<dl>${pages.map((page) => html`<dt><a href="${page.path}">${page.title}</a></dt><dd>${page.about}</dd>`)}</dl></section>`

/** Renders one page of the guide, with links to the pages of its group. */
export function renderGuidePage(site: Site, document: DocumentView, groups: readonly GuideGroup[]): string {
  const { title, path } = document
  const group = groups.find(({ pages }) => pages.some((page) => page.path === path))
  const pages = group?.pages ?? []
  return renderPage(site, {
    title: `Guide: ${title}`,
    description: pages.find((page) => page.path === path)?.about ?? title,
    path,
    content: html`${renderTabs(group?.title ?? 'Guide', [{ path: '/guide', title: 'Guide' }, ...pages], path)}${renderDocument(document)}`,
  })
}

const METHODOLOGY_PAGES = [
  { path: '/methodology', title: 'Statistics' },
  { path: '/methodology/attacks', title: 'Attacks on the verdict' },
] as const

/** Renders a page of the methodology: how numbers are computed, or which attacks were tried. */
export const renderMethodologyPage = (site: Site, document: DocumentView): string =>
  renderPage(site, {
    title: `Methodology: ${document.title}`,
    description: 'How accuracy, cost, intervals, ranks and the frontier are measured, and how verdicts are protected.',
    path: document.path,
    content: html`${renderTabs('Methodology', METHODOLOGY_PAGES, document.path)}${renderDocument(document)}`,
  })

const renderTabs = (label: string, pages: readonly { path: string; title: string }[], currentPath: string): Html =>
  html`<nav class="tabs small" aria-label="${label}">${pages.map(
    ({ path, title }) => html`<a href="${path}" ${path === currentPath ? html`aria-current="page"` : ''}>${title}</a>`,
  )}</nav>`

const renderDocument = ({ body, sections }: DocumentView): Html =>
  html`<div class="document"><article class="prose">${raw(body)}</article>
<nav class="contents small" aria-label="Contents"><ul>${sections.map(({ id, title }) => html`<li><a class="plain" href="#${id}">${title}</a></li>`)}</ul></nav></div>`
