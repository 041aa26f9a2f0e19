// The documents of commands, as the driver takes them.
//
// The core builds a document in BSON. It is read into objects here, and the driver writes BSON again. An acquire or a
// release has up to 300 fields, of which a few texts are new each time. So the first command of each shape is built and
// read, with texts by which their places are known, and later ones are copies of it with their own texts.

import { type Document, Long } from 'mongodb';
import type { Command } from './core';
import { exact, randomHex } from './runner';

/** Makes a copy of one part of a document. */
type Copy = (texts: string[], sent: Long) => unknown;

// No command is sent then, and no document has such a number: it is 277 years.
const SPECIMEN_SENT = 8_765_432_109_876_543;
// What the core writes between texts.
const BETWEEN = '\0';
// The core forgets shapes as well: a program may give each call another ttl, which is part of the shape.
const SHAPES_MAX = 100;

export class Documents {
  /** By the number of the shape, which is a text here. */
  private readonly copies = new Map<string | undefined, Copy>();

  /** The document of a command that is sent at this moment. The caller may add fields to it. */
  of(command: Command, collection: string, sent: number): Document {
    const told = command.shapeAndTexts();
    if (told === undefined) return exact(command.build(collection, sent));
    // The number of the shape is in the place of the collection.
    const texts = told.split(BETWEEN);
    const [shape] = texts;
    texts[0] = collection;
    let copy = this.copies.get(shape);
    if (!copy) {
      copy = copyOfSpecimen(command);
      if (this.copies.size >= SHAPES_MAX) this.copies.clear();
      this.copies.set(shape, copy);
    }
    return copy(texts, Long.fromNumber(sent)) as Document;
  }
}

function copyOfSpecimen(command: Command): Copy {
  const mark = randomHex();
  const collection = `collection ${mark}`;
  const specimen = command.specimen(mark) as Command;
  try {
    const document = exact(specimen.build(collection, SPECIMEN_SENT));
    const [, ...texts] = (specimen.shapeAndTexts() ?? '').split(BETWEEN);
    return copyOf(document, [collection, ...texts], mark) as Copy;
  } finally {
    specimen.free();
  }
}

/**
 * What copies a part; nothing where it is the same in all documents. As they share it, its lists and objects are frozen.
 */
function copyOf(part: unknown, texts: string[], mark: string): Copy | undefined {
  if (typeof part === 'string') {
    const place = texts.indexOf(part);
    if (place >= 0) return (of) => of[place];
    refuse(part, mark);
  }
  if (part instanceof Long && part.toNumber() === SPECIMEN_SENT) return (_, sent) => sent;
  if (Array.isArray(part)) return copyOfList(part, texts, mark);
  return part?.constructor === Object ? copyOfFields(part, texts, mark) : undefined;
}

function copyOfList(list: unknown[], texts: string[], mark: string): Copy | undefined {
  const copies = list.map((each) => copyOf(each, texts, mark));
  if (!copies.some(Boolean)) return frozen(list);
  return (of, sent) => list.map((each, place) => copies[place]?.(of, sent) ?? each);
}

function copyOfFields(part: Document, texts: string[], mark: string): Copy | undefined {
  const fields = Object.entries(part).map(([name, field]: [string, unknown]) => {
    refuse(name, mark);
    return { name, field, copy: copyOf(field, texts, mark) };
  });
  if (!fields.some(({ copy }) => copy)) return frozen(part);
  return (of, sent) => {
    const made: Document = {};
    for (const { name, field, copy } of fields) made[name] = copy ? copy(of, sent) : field;
    return made;
  };
}

/** A text that stands somewhere else than as a whole value would be the specimen's in all documents. */
function refuse(text: string, mark: string): void {
  if (text.includes(mark))
    throw new Error('a text of a command is only a part of a field, or its name');
}

function frozen(part: object): undefined {
  Object.freeze(part);
}
