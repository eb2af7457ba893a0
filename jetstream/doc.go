// Package jetstream is the one adapter between Mulligan and NATS JetStream: no
// other package imports the NATS client. A [Pool] offers the ports that
// coordinator, worker, reflector and client declare, in words of the messages
// package only; package memory is its twin without a broker, and porttest
// holds both to the same behaviour.
//
// Three rules of the protocol live here and nowhere else:
//
//   - What decides is read from the leader of a stream, never by a direct get.
//   - First write wins without Nats-Msg-Id, and a refusal counts only when the
//     winner has been read (P7.4, P7.14).
//   - Foreign errors are translated once, into the errors of messages. What is
//     not translated means: not known to have happened.
package jetstream
