import { linkOptions } from '@tanstack/react-router'

/**
 * Returns the path of the navigation entry that a page belongs to. The path of a comparison begins with its benchmark or
 * repository, but the page belongs to the comparisons.
 */
export function findNavigationPath(path: string): string | undefined {
  const appPath = path.replace(/^\/app(?=\/|$)/, '') || '/'
  const exact = NAVIGATION.find(({ link }) => link.to === appPath)
  if (exact) return exact.link.to
  if (/\/comparisons\/|^\/trials\//.test(appPath)) return '/comparisons'
  if (appPath.endsWith('/publish')) return '/releases'
  return NAVIGATION.find(({ link }) => link.to !== '/' && appPath.startsWith(`${link.to}/`))?.link.to
}

/** Pages that the navigation and the command palette list, in their order. */
export const NAVIGATION = [
  { group: 'Work', label: 'Overview', link: linkOptions({ to: '/' }) },
  { group: 'Work', label: 'Comparisons', link: linkOptions({ to: '/comparisons' }) },
  { group: 'Work', label: 'New comparison', link: linkOptions({ to: '/comparisons/new' }) },
  { group: 'Work', label: 'Repositories', link: linkOptions({ to: '/repos' }) },
  { group: 'Work', label: 'Benchmarks', link: linkOptions({ to: '/benchmarks' }) },
  { group: 'Work', label: 'Configurations', link: linkOptions({ to: '/configurations' }) },
  { group: 'Work', label: 'Releases', link: linkOptions({ to: '/releases' }) },
  { group: 'Settings', label: 'Models and harnesses', link: linkOptions({ to: '/settings/models' }) },
  { group: 'Settings', label: 'Credentials', link: linkOptions({ to: '/settings/credentials' }) },
  { group: 'Settings', label: 'Keys', link: linkOptions({ to: '/settings/keys' }) },
  { group: 'Settings', label: 'Webhooks', link: linkOptions({ to: '/settings/webhooks' }) },
  { group: 'Settings', label: 'Spend', link: linkOptions({ to: '/settings/spend' }) },
  { group: 'Settings', label: 'Operations', link: linkOptions({ to: '/operations' }) },
  { group: 'Settings', label: 'Audit log', link: linkOptions({ to: '/settings/audit' }) },
] as const
