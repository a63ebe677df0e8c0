// A consumer of a durable queue: manual acknowledgements, a prefetch, dead letters for what fails,
// reconnecting, and an orderly end on SIGINT and SIGTERM.
//
//	go mod tidy && go run . -url amqp://guest:guest@127.0.0.1:5672/ -queue orders
//
// On Debian, with golang-go and golang-github-rabbitmq-amqp091-go-dev, and without a network:
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run main.go
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	prefetch     = 50 // messages that the server sends ahead of acknowledgements
	reconnectMax = 30 * time.Second
)

// handle does the work for one message. An error makes the message a dead letter.
func handle(message amqp.Delivery) error {
	if strings.HasPrefix(string(message.Body), "bad") {
		return errors.New("the message cannot be processed")
	}
	log.Printf("done %s", message.Body)
	return nil
}

// declare makes the queue, and the queue for its dead letters. Both survive a restart.
func declare(channel *amqp.Channel, queue string) error {
	dead := queue + ".dead"
	if _, err := channel.QueueDeclare(dead, true, false, false, false, nil); err != nil {
		return err
	}
	arguments := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
	_, err := channel.QueueDeclare(queue, true, false, false, false, arguments)
	return err
}

// consume works until the context ends (nil) or the connection is lost (an error).
func consume(ctx context.Context, url, queue string) error {
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := declare(channel, queue); err != nil {
		return err
	}
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return err
	}
	const tag = "go-consumer"
	deliveries, err := channel.Consume(queue, tag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	log.Printf("consuming %s", queue)
	for {
		select {
		case <-ctx.Done():
			// What was sent ahead and is not acknowledged goes back to the queue when the connection closes.
			return channel.Cancel(tag, false)
		case reason := <-closed:
			if reason != nil {
				return reason
			}
			return errors.New("the connection was closed")
		case message, open := <-deliveries:
			if !open {
				return errors.New("the server cancelled the consumer")
			}
			if err := settle(message); err != nil {
				return err
			}
		}
	}
}

// settle acknowledges a message after its work is done.
func settle(message amqp.Delivery) error {
	if err := handle(message); err != nil {
		log.Printf("rejected %s: %s", message.Body, err)
		return message.Nack(false, false)
	}
	return message.Ack(false)
}

func main() {
	url := flag.String("url", "amqp://guest:guest@127.0.0.1:5672/", "address of the server")
	queue := flag.String("queue", "orders", "queue to consume")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	wait := time.Second
	for {
		started := time.Now()
		err := consume(ctx, *url, *queue)
		if ctx.Err() != nil {
			log.Print("stopped")
			return
		}
		if time.Since(started) > reconnectMax {
			wait = time.Second
		}
		log.Printf("connecting again in %s: %s", wait, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if wait *= 2; wait > reconnectMax {
			wait = reconnectMax
		}
	}
}
