import { test } from 'vitest'
import { conformance } from '../../test/support/sandboxes/conformance.ts'
import { createLocalSubject } from '../../test/support/sandboxes/local-subject.ts'

if (process.getuid?.() === 0) {
  conformance('local bwrap as root', () => createLocalSubject('bwrap'))
  conformance('local runc as root', () => createLocalSubject('runc'))
} else {
  test.skip('the local sandbox passes the conformance tests as root (skipped: not root)')
}
