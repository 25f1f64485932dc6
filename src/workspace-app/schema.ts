import { endpoint } from '../platform/http/endpoint.ts'
import type { ProblemKind } from '../platform/problem.ts'

export const appNotBuilt = {
  code: 'app_not_built',
  status: 503,
  title: 'The workspace app is not built',
  meaning: 'A service that runs from a clone builds the app after it started. Otherwise run `npm run build`.',
  retryable: true,
} as const satisfies ProblemKind

const page = {
  method: 'GET',
  access: 'public',
  media: 'text/html; charset=utf-8',
  answers: { 200: null },
  problems: [appNotBuilt],
} as const

export const showApp = endpoint({ ...page, id: 'showApp', path: '/app', summary: 'Page: the workspace app' })

export const showAppRoot = endpoint({ ...page, id: 'showAppRoot', path: '/app/', summary: 'Page: the workspace app' })

export const showAppPage = endpoint({
  ...page,
  id: 'showAppPage',
  path: '/app/{path}',
  summary: 'Page: any page of the workspace app, which is routed in the browser',
})

export const readAppAsset = endpoint({
  id: 'readAppAsset',
  method: 'GET',
  path: '/app/assets/{path}',
  summary: 'Script, style or font of the workspace app, named after its content',
  access: 'public',
  answers: { 200: null },
})
