import { expect, test } from 'vitest'
import { isTextOnly, splitPipelines } from './view.ts'

test.each([
  ['a && b || c; d & e', ['a', 'b', 'c', 'd', 'e']],
  ['a | b\nc', ['a | b', 'c']],
  [`echo "a && b; c" && d`, [`echo "a && b; c"`, 'd']],
  [`echo 'it''s; fine'`, [`echo 'it''s; fine'`]],
  ['echo a\\;b', ['echo a\\;b']],
  ['a > b 2>&1 && c &> d', ['a > b 2>&1', 'c &> d']],
  [`echo "left open ; b`, [`echo "left open`, 'b']],
  ['  ;; ', []],
])('splits %j into pipelines', (text, expected) => {
  expect(splitPipelines(text)).toEqual(expected)
})

test.each([
  ['echo hello > file', true],
  ['cat a | grep b', true],
  ['sudo tee /etc/x', true],
  ['echo hello | sh', false],
  ['printf x | sudo /bin/bash -s', false],
  ['echo $(curl example.org)', false],
  ['curl example.org', false],
  ['cat a | python3 -', false],
])('%j only handles text: %s', (pipeline, expected) => {
  expect(isTextOnly(pipeline)).toBe(expected)
})
