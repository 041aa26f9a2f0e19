// A network between a client and the server that can lose or hold a reply, stand still, and keep the bytes of commands.

import { createConnection, createServer } from 'node:net';
import { once } from 'node:events';
import { BSON } from 'mongodb';
import { uri } from './help.mjs';

const OP_MSG = 2013;

export class Proxy {
  /** The commands that have passed, by name, as raw documents in the order of their sending. */
  sent = [];
  #fates = [];
  #isStill = false;
  #pairs = new Set();

  /** At a port of its own, or at this one. */
  static async start(world, at = 0) {
    const proxy = new Proxy();
    const { hostname, port } = new URL(uri.replace('mongodb:', 'http:'));
    proxy.server = createServer((client) => proxy.#connect(client, hostname, Number(port)));
    proxy.server.listen(at, '127.0.0.1');
    await once(proxy.server, 'listening');
    world?.onEnd(() => proxy.close());
    return proxy;
  }

  get uri() {
    const { port } = this.server.address();
    return `mongodb://127.0.0.1:${port}/?directConnection=true&serverSelectionTimeoutMS=2000`;
  }

  /** The reply to the next command of this name is lost with its connection, after the server has carried it out. */
  loseNextReply(command) {
    return new Promise((lost) => {
      this.#fates.push({ command, meet: ({ cut }) => lost(cut()) });
    });
  }

  /** Holds the reply to the next command of this name, and resolves then to a function that lets it go on. */
  holdNextReply(command) {
    return new Promise((held) => {
      this.#fates.push({ command, meet: ({ pass }) => held(pass) });
    });
  }

  /** From now on nothing passes, and connections stay open. */
  standStill() {
    this.#isStill = true;
    for (const { client, server } of this.#pairs) {
      client.pause();
      server.pause();
    }
  }

  goOn() {
    this.#isStill = false;
    for (const { client, server } of this.#pairs) {
      client.resume();
      server.resume();
    }
  }

  async close() {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
    this.server.close();
    await once(this.server, 'close');
  }

  #connect(client, host, port) {
    const server = createConnection({ host, port });
    const pair = { client, server };
    this.#pairs.add(pair);
    const end = () => {
      this.#pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    const fates = new Map();
    client.on(
      'data',
      messages((message) => {
        const command = commandOf(message);
        if (command) {
          const [name] = Object.keys(command);
          this.sent.push({ name, command });
          const place = this.#fates.findIndex((fate) => fate.command === name);
          if (place >= 0) fates.set(message.readInt32LE(4), this.#fates.splice(place, 1)[0]);
        }
        server.write(message);
      }),
    );
    server.on(
      'data',
      messages((message) => {
        const fate = fates.get(message.readInt32LE(8));
        const pass = () => client.write(message);
        if (fate) fate.meet({ pass, cut: end });
        else pass();
      }),
    );
    for (const socket of [client, server]) socket.on('error', end).on('close', end);
    if (this.#isStill) {
      client.pause();
      server.pause();
    }
  }
}

/** Calls back for each whole message of a stream. */
function messages(heard) {
  let rest = Buffer.alloc(0);
  return (data) => {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= 4 && rest.length >= rest.readInt32LE(0)) {
      const length = rest.readInt32LE(0);
      heard(rest.subarray(0, length));
      rest = rest.subarray(length);
    }
  };
}

/** The command in a message, exactly as it was sent. */
function commandOf(message) {
  if (message.readInt32LE(12) !== OP_MSG || message[20] !== 0) return undefined;
  const length = message.readInt32LE(21);
  const options = { promoteValues: false, bsonRegExp: true };
  return withSequences(
    BSON.deserialize(message.subarray(21, 21 + length), options),
    message,
    21 + length,
  );
}

/** A driver may send a list of statements beside the document: the Rust driver does not for plain commands. */
function withSequences(document, message, from) {
  let place = from;
  while (place < message.length && message[place] === 1) {
    const size = message.readInt32LE(place + 1);
    const nameEnd = message.indexOf(0, place + 5);
    document[message.toString('utf8', place + 5, nameEnd)] = 'a sequence';
    place += 1 + size;
  }
  return document;
}
