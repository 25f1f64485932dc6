import { html, raw } from 'hono/html'
import type { Html } from '../../components/format.ts'
import { renderPage, type Site } from '../../components/layout.ts'

/** A page of the guide. Its HTML was rendered from our own Markdown with every tag in it escaped. */
type GuideDocument = {
  title: string
  body: string
  path: string
  sections: readonly { id: string; title: string }[]
}

type GuideGroup = { title: string; pages: readonly { path: string; title: string; about: string }[] }

/** Renders the contents of the guide. */
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

/** Renders one page of the guide, with the pages of its group above and its own sections beside it. */
export const renderGuidePage = (
  site: Site,
  { title, body, path, sections }: GuideDocument,
  groups: readonly GuideGroup[],
): string => {
  const group = groups.find(({ pages }) => pages.some((page) => page.path === path))
  return renderPage(site, {
    title: `Guide: ${title}`,
    description: group?.pages.find((page) => page.path === path)?.about ?? title,
    path,
    content: html`<nav class="tabs small" aria-label="${group?.title ?? 'Guide'}"><a href="/guide">Guide</a>${group?.pages.map(
      (page) => html`<a href="${page.path}" ${page.path === path ? html`aria-current="page"` : ''}>${page.title}</a>`,
    )}</nav><div class="document"><article class="prose">${raw(body)}</article>
<nav class="contents small" aria-label="Contents"><ul>${sections.map((section) => html`<li><a class="plain" href="#${section.id}">${section.title}</a></li>`)}</ul></nav></div>`,
  })
}
