import { html, raw } from 'hono/html'
import { type Html, withQuery } from './format.ts'

/** What every page needs to know about the service. */
export type Site = {
  publicUrl: string
  /** Hash of stylesheet and script, part of their addresses. */
  assetVersion: string
  /** Target of links. Set for a page that is shown in a frame. */
  linkTarget?: '_blank' | undefined
}

type LayoutOptions = {
  title: string
  description: string
  /** Path of the page. Undefined for pages that search engines must not list. */
  path?: string | undefined
  /** Description of the content for search engines, in the vocabulary of schema.org. */
  structuredData?: Record<string, unknown> | undefined
  /** Path of a picture for services that preview links, 1200 × 630 pixels. */
  image?: string | undefined
  /** True if the content has a search field. The header then has none. */
  hasSearch?: boolean | undefined
  content: Html
}

/** Renders a whole page: head, header, content, footer. */
export const renderPage = (site: Site, page: LayoutOptions): string =>
  String(html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${page.title} · Assay</title>
<meta name="description" content="${page.description}">
<meta name="color-scheme" content="light dark">${
    site.linkTarget
      ? html`
<base target="${site.linkTarget}">`
      : ''
  }
${page.path === undefined ? html`<meta name="robots" content="noindex">` : renderSharingTags(site, page, page.path)}
<link rel="alternate" type="application/atom+xml" title="Newest results" href="/api/public/results.atom">
<link rel="preload" as="font" type="font/woff2" href="/assets/fonts/source-serif-4-5.3.1.woff2" crossorigin>
<link rel="preload" as="font" type="font/woff2" href="/assets/fonts/inter-5.3.0.woff2" crossorigin>
<link rel="stylesheet" href="/assets/site.css?v=${site.assetVersion}">
<script src="/assets/site.js?v=${site.assetVersion}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="top">
<a class="brand" href="/">Assay</a>
<nav aria-label="Main"><a class="quiet" href="/" ${markCurrent(page.path, '/')}>Results</a> <a class="quiet" href="/methodology" ${markCurrent(page.path, '/methodology')}>Methodology</a> <a class="quiet" href="/guide" ${markCurrent(page.path, '/guide')}>Guide</a> <a class="quiet" href="/docs">API</a></nav>${page.hasSearch ? '' : renderSearch()}
</header>
<main id="content">${page.content}</main>
<footer class="bottom small"><p>Measured with Assay on a team’s own code. <a href="/methodology">Methodology</a> · <a href="/api/public/results.atom">Feed</a> · <a href="/docs">API</a></p><button class="button" type="button" data-theme-button hidden>Theme</button></footer>
</body>
</html>
`)

const renderSearch = (): Html => html`
<form class="search" role="search" action="/" method="get">
<label class="hidden" for="find">Find a repository, publisher or model</label>
<input id="find" type="search" name="q" maxlength="200" placeholder="Find a repository">
</form>`

/** Marks the link to the current page, or to the part of the site that the page belongs to. */
function markCurrent(path: string | undefined, href: '/' | '/methodology' | '/guide'): Html {
  if (path === undefined) return html``
  if (path === href) return html`aria-current="page"`
  const section = ['/methodology', '/guide'].find((each) => path.startsWith(each)) ?? '/'
  return section === href ? html`aria-current="true"` : html``
}

/** Renders the tags that search engines and services that preview links read. */
function renderSharingTags({ publicUrl }: Site, page: LayoutOptions, path: string): Html {
  const { title, description, image, structuredData } = page
  const url = `${publicUrl}${path}`
  return html`<link rel="canonical" href="${url}">
<meta property="og:site_name" content="Assay">
<meta property="og:type" content="website">
<meta property="og:title" content="${title}">
<meta property="og:description" content="${description}">
<meta property="og:url" content="${url}">
${
  image
    ? html`<meta property="og:image" content="${publicUrl}${image}">
<meta property="og:image:width" content="1200"><meta property="og:image:height" content="630">
<meta property="og:image:alt" content="${description}">
<meta name="twitter:card" content="summary_large_image">
<link rel="alternate" type="application/json+oembed" title="${title}" href="${withQuery(`${publicUrl}/oembed`, { url })}">`
    : ''
}
${structuredData ? html`<script type="application/ld+json">${raw(toScriptJson(structuredData))}</script>` : ''}`
}

/** Serialises data for a script element. Escapes `<`, so that no text can end the element. */
const toScriptJson = (data: object): string => JSON.stringify(data).replaceAll('<', '\\u003c')

/** Renders a text with a button that copies it. The script shows the button; without the script, the text can be selected. */
export const renderCopyText = (id: string, label: string, text: string): Html => html`<div class="copy">
<span class="small muted" id="${id}-label">${label}</span>
<pre tabindex="0" aria-labelledby="${id}-label"><code id="${id}">${text}</code></pre>
<button class="button" type="button" data-copy="${id}" hidden>Copy<span class="hidden"> ${label}</span></button>
</div>`
