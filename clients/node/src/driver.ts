// The driver's objects, as far as this package uses them. A program may have several copies of the driver, as Mongoose
// brings its own: their classes are other types to TypeScript, and these types accept each of them.

/** A `Db`, of whichever copy and version of the driver. */
export interface AnyDb {
  readonly databaseName: string;
  readonly client: object;
  command(command: object, options?: object): Promise<object>;
}

/** A `ClientSession`, of whichever copy and version of the driver. */
export interface AnySession {
  inTransaction(): boolean;
  commitTransaction(): Promise<unknown>;
  abortTransaction(): Promise<unknown>;
}

/** A `Collection`, of whichever copy and version of the driver, with its types for a filter and an update. */
export interface AnyCollection<Filter, Update> {
  updateOne(filter: Filter, update: Update, options?: object): Promise<object>;
  findOne(filter: Filter): Promise<unknown>;
}

/** A connection of Mongoose. */
export interface MongooseConnection {
  db?: unknown;
  startSession(): Promise<unknown>;
  transaction(work: () => Promise<unknown>): Promise<unknown>;
}
