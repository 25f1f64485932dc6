import type { RawEntry } from '../harbor/raw-tar.ts'

/** Archives that try to write outside their target or contain forbidden entries. */
export const hostileEntries: Record<string, RawEntry[]> = {
  'a step up': [{ name: '../escaped', content: 'x' }],
  'two steps up': [{ name: '../../escaped', content: 'x' }],
  'a step up later': [{ name: 'a/../../../escaped', content: 'x' }],
  'a file through a link to the root': [
    { name: 'link', type: '2', target: '/' },
    { name: 'link/escaped', content: 'x' },
  ],
  'a file through a link up': [
    { name: 'link', type: '2', target: '../..' },
    { name: 'link/escaped', content: 'x' },
  ],
  'a file through a link that stays': [
    { name: 'real/', type: '5', mode: 0o755 },
    { name: 'link', type: '2', target: 'real' },
    { name: 'link/../../../escaped', content: 'x' },
  ],
  'a hard link to a file of the image': [
    { name: 'hard', type: '1', target: '/etc/passwd' },
    { name: 'hard', content: 'x' },
  ],
  'a device': [{ name: 'device', type: '3' }],
  'a disk': [{ name: 'disk', type: '4' }],
  'a pipe': [{ name: 'pipe', type: '6' }],
}
