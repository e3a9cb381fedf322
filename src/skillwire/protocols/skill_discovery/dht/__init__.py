"""The DHT of Skill Discovery: a Kademlia node that verifies what it stores. Spec: SDP §6; specs §3."""
