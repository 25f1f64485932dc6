import { type Endpoint, replyCached } from '../platform/http/endpoint.ts'
import { NOT_FOUND_DETAIL } from '../platform/http/respond.ts'
import { type Route, route } from '../platform/http/route.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { chooseEncoding, computeEntityTag } from '../results/cache.ts'
import { BUILD_FOLDER, type BuiltFile, findAsset, findPage } from './build.ts'
import * as schema from './schema.ts'

/** The app executes only its own scripts, is never framed, and frames and calls only this service. */
const SECURITY_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  vary: 'Accept-Encoding',
}
const PAGE_CACHING = { 'cache-control': 'private, no-cache' }
/** The name of an asset contains a hash of its content. */
const ASSET_CACHING = { 'cache-control': 'public, max-age=31536000, immutable' }
/** Browsers load the page again until the build is finished. */
const RETRY_HEADERS = { 'retry-after': '3', refresh: '3' }

/** Routes of the workspace app. Files are read when they are requested, so that a new build needs no restart. */
export const workspaceAppRoutes = (folder = BUILD_FOLDER): Route[] => {
  const page = <E extends Endpoint>(endpoint: E) =>
    route(endpoint, async ({ acceptEncoding }) => {
      const file = await findPage(chooseEncoding(acceptEncoding), folder)
      if (!file)
        throw new Problem(schema.appNotBuilt, 'The app is being built. This page reloads.', { headers: RETRY_HEADERS })
      return toReply(file, PAGE_CACHING)
    })
  return [
    route(schema.readAppAsset, async ({ params, acceptEncoding }) => {
      const file = await findAsset(params.path, chooseEncoding(acceptEncoding), folder)
      if (!file) throw new Problem(notFound, NOT_FOUND_DETAIL)
      return toReply(file, ASSET_CACHING)
    }),
    page(schema.showApp),
    page(schema.showAppRoot),
    page(schema.showAppPage),
  ]
}

function toReply({ body, type, encoding }: BuiltFile, caching: Record<string, string>) {
  const etag = `"${computeEntityTag(body)}"`
  const encoded: Record<string, string> = encoding === 'identity' ? {} : { 'content-encoding': encoding }
  return replyCached({ body, etag, type }, { ...SECURITY_HEADERS, ...caching, ...encoded })
}
