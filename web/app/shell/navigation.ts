import { linkOptions } from '@tanstack/react-router'

/** Pages that the navigation and the command palette list, in their order. */
export const NAVIGATION = [
  { group: 'Work', label: 'Overview', link: linkOptions({ to: '/' }) },
  { group: 'Work', label: 'Comparisons', link: linkOptions({ to: '/comparisons' }) },
  { group: 'Work', label: 'New comparison', link: linkOptions({ to: '/comparisons/new' }) },
  { group: 'Work', label: 'Repositories', link: linkOptions({ to: '/repos' }) },
] as const
