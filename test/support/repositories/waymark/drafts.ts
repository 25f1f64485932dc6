import { type Drafts, draft } from '../draft.ts'

export const drafts: Drafts = {
  1: draft(
    'Values in a query are cut at an equals sign',
    'The part of an address behind the question mark is read into pairs of names and values. A value that has an equals sign in it is cut there: a token such as abc== arrives as abc, and signing in fails for users whose token happens to end that way. A plus sign, which forms send for a blank, arrives as a plus sign.',
    'Only the first equals sign of a pair separates its name from its value, and all further ones belong to the value. A plus sign in a name or a value stands for a blank. Everything else stays: percent signs are decoded, a name alone has an empty value, and the last of several pairs of the same name counts.',
  ),
  2: draft(
    'Paths can be made from patterns',
    'Patterns such as /users/:id are only ever matched against paths. Code that wants to link to a route has to put the path together by hand, and forgets to encode values or misses that a pattern was renamed.',
    `A new function takes a pattern and an object of values, which may be left out, and returns a path that fits the pattern. Each name of the pattern is replaced by its value, encoded for use in one part of a path. The rest, written as a star, is replaced by the value of that name without encoding, so that its slashes stay. A value that is missing or empty is an error whose message has the name followed by the words is missing. Values that the pattern does not use become the query, in their order, with names and values encoded.

A router has a method of the same name and parameters, for patterns that were registered with it. For any other pattern it throws an error that has the words no route and the pattern.`,
  ),
  3: draft(
    'A slash at the end of a path makes a difference',
    'Users who type an address with a slash at its end, or with two slashes by mistake, get no answer, although the same address without the extra slash works. Proxies add such slashes too, so that links that work in development break in production.',
    'Slashes at the end of a path or of a pattern make no difference, and several slashes in a row count as one. The root, a single slash, still matches only the pattern that is a single slash and has no names. What a star stands for begins with the first part that it covers, and its parts are joined by single slashes. Nothing else about matching changes.',
  ),
  4: draft(
    'Routes can have methods',
    'Every route answers every kind of request, so that reading a list and adding to it need two different paths. Most services want the same path with different methods.',
    `When a route is registered, its pattern may have a method and one blank before it, as in POST /users. The methods are GET, POST, PUT, PATCH and DELETE, in large or small letters. Without a method it is GET. Any other word there is an error that has the text no such method, a colon, a blank and the word as it was written.

When a router is asked for an answer, the address may have a method before it in the same way, and without one it is GET. The first route that fits both path and method answers. When the path fits some route but the method fits none of these, the answer is the method in capital letters followed by the words is not allowed here. When no route fits the path, the answer is the same as today.

The list of routes shows the method before each pattern, padded with blanks to seven characters. What a route knows about its pattern does not include the method.`,
  ),
  30: draft(
    'Patterns with an empty name or two stars are taken silently',
    'A pattern in which a colon stands alone, such as /users/: with nothing behind it, is accepted, and the part of the path is then stored under an empty name, where nobody finds it. A pattern with two stars is accepted too and matches only a path that has two stars in it, although whoever writes it means a rest. Both are slips of the pen that should be found when a route is registered and not when a user complains.',
    'Cutting a pattern into its segments throws an error for both. For a colon alone the message has the words a name is empty, and for a part of exactly two stars it has the words a rest has one star. Both messages end with the pattern. All other patterns are read as before.',
  ),
}
