import { html } from 'hono/html'
import { type Html, safeText } from './format.ts'

/** Facts of the service that every page needs. */
export type Site = { publicUrl: string; assetVersion: string }

type LayoutOptions = {
  title: string
  description: string
  /** Path of the page. Undefined for pages that must not be indexed. */
  path?: string | undefined
  /** Search text of the current page. */
  q?: string | undefined
  content: Html
}

/** Renders a whole page: head, header, content, footer. */
export const renderPage = (site: Site, { title, description, path, q, content }: LayoutOptions): string =>
  String(html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Assay</title>
<meta name="description" content="${description}">
${path === undefined ? html`<meta name="robots" content="noindex">` : describeForSharing(site, { title, description, path })}
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
<nav aria-label="Main"><a class="quiet" href="/">Results</a> <a class="quiet" href="/docs">API</a></nav>
<form class="search" role="search" action="/" method="get">
<label class="hidden" for="find">Find a repository, publisher or model</label>
<input id="find" type="search" name="q" maxlength="200" placeholder="Find a repository" value="${safeText(q ?? '', 200)}">
</form>
<button class="button" type="button" data-theme-button hidden>Theme</button>
</header>
<main id="content">${content}</main>
<footer class="bottom small"><p>Measured with Assay on a team’s own code. <a href="/api/public/results.atom">Feed</a> · <a href="/docs">API</a></p></footer>
</body>
</html>
`)

const describeForSharing = (
  { publicUrl }: Site,
  { title, description, path }: { title: string; description: string; path: string },
): Html => html`<link rel="canonical" href="${publicUrl}${path}">
<meta property="og:title" content="${title}">
<meta property="og:description" content="${description}">
<meta property="og:url" content="${publicUrl}${path}">`

/** Renders a text to copy with its button. The button needs JavaScript; the text can be selected without. */
export const renderCopyText = (id: string, label: string, text: string): Html => html`<div class="copy">
<span class="small muted" id="${id}-label">${label}</span>
<pre tabindex="0" aria-labelledby="${id}-label"><code id="${id}">${text}</code></pre>
<button class="button" type="button" data-copy="${id}" hidden>Copy<span class="hidden"> ${label}</span></button>
</div>`
