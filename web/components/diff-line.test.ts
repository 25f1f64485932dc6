import { expect, test } from 'vitest'
import { listDiffFiles } from './diff-line.ts'

const DIFF = `diff --git a/kept.ts b/kept.ts
--- a/kept.ts
+++ b/kept.ts
@@ -1,2 +1,2 @@
-old
+new
+newer
diff --git a/gone.ts b/gone.ts
--- a/gone.ts
+++ /dev/null
@@ -1 +0,0 @@
-gone`

test('lists the files of a diff with their changed lines, a deleted one by its own name', () => {
  expect(listDiffFiles(DIFF.split('\n'))).toEqual([
    { name: 'kept.ts', headerIndex: 2, added: 2, removed: 1 },
    { name: 'gone.ts', headerIndex: 9, added: 0, removed: 1 },
  ])
})
